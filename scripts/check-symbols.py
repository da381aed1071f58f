#!/usr/bin/env python3
"""check-symbols.py BUILD: checks what librsock.so imports and exports, by its objects.

- It needs libc and nothing else (libgcc_s: the unwinder, which cancellation runs), has no text
  relocations, and its thread-local storage needs no call.
- It exports exactly what preload/symbols.def has rows for.
- Stray calls: stream/, fabric/ and mapper/ call no libc function that the library hooks, which
  would enter our own hook. Nor stdio, which allocates, locks and does its own input and output.
  Exceptions are in scripts/stray-calls.txt, each with its reason.
- A libc function whose name suggests that it returns a descriptor has a row in symbols.def, or a
  line in scripts/no-hook.txt with a reason; and what hook_open.c consists of is tested by
  test/app/reuse.c.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ("stream", "fabric", "mapper")
NOT_ENGINE = re.compile(r"/rsk_mapper_(pm|host|config|policy|local)\.dir/")  # only in programs
MAY_NEED = {"libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
STDIO = re.compile(r"_*(v?f?d?printf|v?asprintf|puts|fputs|fputc|putchar|perror|fopen|fopen64"
                   r"|fdopen|fclose|fflush|fread"
                   r"|fwrite|fgets|getline|v?f?scanf|v?sscanf|isoc99_\w*scanf|stdin|stdout"
                   r"|stderr)(_chk)?")


MAKES = re.compile(r"_*((.*_)?f?d?open(at2?|dir|pt|pty|64|at64|_2|64_2|at_2|at64_2)?|.*create?(64"
                   r"|1)?|f?d?re?open(64)?"
                   r"|p?open|.*socket(pair)?|pipe2?|dup[23]?|accept4?|mko?stemps?(64)?"
                   r"|tmpfile(64)?|getpt|.*_openpt"
                   r"|(memfd|timerfd|epoll|pidfd|event|signal|timer)_?(create1?|open|getfd|fd|spawnp?)"
                   r"|.*notify_init1?|fs(open|mount|pick)"
                   r"|open_.*|setmntent|rcmd(_af)?|rexec(_af)?|rresvport(_af)?)")
LIBC = re.compile(r"libc\.so\.6 => (\S+)")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(path, *options):
    """(name, type) from nm's lines, without versions."""
    found = []
    for line in run("nm", "-P", *options, str(path)).splitlines():
        words = line.split()
        if len(words) >= 2 and len(words[1]) == 1:
            found.append((words[0].split("@")[0], words[1]))
    return found


def table():
    """The names in symbols.def, as the preprocessor reads it."""
    row = [f"-D{macro}(ret, name, ...)=@name@" for macro in ("RSK_SYM", "RSK_CHK", "RSK_VAR")]
    row += [f"-D{macro}(name, ...)=@name@" for macro in ("RSK_VOID", "RSK_EXIT", "RSK_ALIAS")]
    text = run("gcc", "-E", "-P", "-x", "c", *row, str(ROOT / "preload/symbols.def"))
    return set(re.findall(r"@\s*(\w+)\s*@", text))


def allowed():
    """{(folder or *, name)}; a line without a reason is an error."""
    rows, errors = set(), []
    path = ROOT / "scripts/stray-calls.txt"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\w+)/([\w.*]+)\s+(\w+)\s+#\s*(\S.*)", line)
        if not match:
            errors.append(f"{path.name}:{number}: folder/file.c  symbol  # reason")
        else:
            rows.add((match[1], match[2], match[3]))
    return rows, errors


def check_library(library):
    errors = []
    dynamic = run("readelf", "-dW", str(library))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    if needed - MAY_NEED:
        errors.append(f"librsock.so needs {', '.join(sorted(needed - MAY_NEED))}")
    if "TEXTREL" in dynamic:
        errors.append("librsock.so has text relocations")
    if "(RPATH)" in dynamic or "(RUNPATH)" in dynamic:
        errors.append("librsock.so has a run path")
    if "BIND_NOW" not in dynamic:
        errors.append("librsock.so binds lazily")
    if re.search(r"GNU_STACK.*RWE", run("readelf", "-lW", str(library))):
        errors.append("librsock.so wants an executable stack")
    names = symbols(library, "-D")
    exported = {name for name, kind in names if kind in "TWViBDR" and kind != "U"}
    taken = {name for name, kind in names if kind in "Uw"}
    if "__tls_get_addr" in taken:
        errors.append("librsock.so calls __tls_get_addr: not initial-exec everywhere")
    fortified = sorted(name for name in taken if name.endswith("_chk")
                       and name != "__stack_chk_fail")
    if fortified:
        errors.append(f"librsock.so calls fortified twins: {', '.join(fortified)}")
    rows = table()
    errors += [f"librsock.so exports {name}, which has no row in symbols.def"
               for name in sorted(exported - rows)]
    errors += [f"symbols.def has a row for {name}, which is not exported"
               for name in sorted(rows - exported)]
    if not exported:
        errors.append("librsock.so exports nothing")
    return exported, errors


def check_makers(library):
    """Checks the libc functions that make a descriptor, judged by their names."""
    errors, reasons = [], []
    for number, line in enumerate((ROOT / "scripts/no-hook.txt").read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.partition("  # ")
            if not reason:
                errors.append(f"no-hook.txt:{number}: name  # reason")
            reasons.append(re.compile(pattern))
    rows = table()
    libc = LIBC.search(run("ldd", str(library)))[1]
    for name in sorted({name for name, kind in symbols(libc, "-D") if kind in "TWi"
                        and MAKES.fullmatch(name)}):
        if name not in rows and not any(reason.fullmatch(name) for reason in reasons):
            errors.append(f"libc's {name}() looks as if it made a descriptor: a row in "
                          f"symbols.def, or in no-hook.txt")
    tried = (ROOT / "test/app/reuse.c").read_text()
    for name in re.findall(r"\n(?:RSK_(?:SYM|CHK|VAR)\([^,]*, "
                           r"*|RSK_ALIAS\()(\w+),[^\n]*(?:\n\t[^\n]*)*?[ ,]open,",
                           (ROOT / "preload/symbols.def").read_text()):
        if not re.search(rf"\b{name}\b", tried):
            errors.append(f"test/app/reuse.c does not try {name}()")
    return errors


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    library = build / "lib/librsock.so"
    if not library.exists():
        print(f"{library}: not built")
        return 1
    exported, errors = check_library(library)
    rows, bad_rows = allowed()
    errors += bad_rows + check_makers(library)
    used, objects = set(), 0
    for folder in ENGINE:
        for path in sorted((build / folder).rglob("*.o")):
            if not re.search(rf"/rsk_{folder}(_\w+)?\.dir/",
                             str(path)) or NOT_ENGINE.search(str(path)):
                continue
            objects += 1
            source = path.name.removesuffix(".o")
            for name, kind in symbols(path):
                if kind == "U" and (name in exported or STDIO.fullmatch(name)):
                    row = next((r for r in ((folder, source, name), (folder, "*", name))
                                if r in rows), None)
                    if row:
                        used.add(row)
                    else:
                        why = "which is hooked" if name in exported else "which is stdio"
                        errors.append(f"{folder}/{source}: stray call of {name}(), {why}")
                elif kind in "TWD" and not name.startswith("rsk_"):
                    errors.append(f"{folder}/{source}: defines {name}: only preload/ has names "
                                  f"without rsk_")
    for row in sorted(rows - used):
        errors.append(f"stray-calls.txt: {row[0]}/{row[1]} {row[2]}: not needed any more")
    if objects < len(list(ROOT.glob("stream/*/*.c"))):
        errors.append(f"{objects} objects of stream/, fabric/, mapper/: some were not found")
    for error in errors:
        print(error)
    print(f"{len(exported)} exports, {objects} objects of the engine, {len(used)} exceptions")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
