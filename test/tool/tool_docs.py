#!/usr/bin/python3 -B
"""Manual, completion and help agree with the tables of the tool: nothing is missing, nothing
superfluous.
"""
import json
import os
import re
import subprocess

import yaml

from lib.harness import case, main
from tool import ask, says

ROOT = os.environ.get("RSOCK_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                      "..", "..")


def tables(t):
    return json.loads(ask(t, "--help", "--json").out())


def complete(words):
    """What bash would offer for the last of these words."""
    script = f"""
        . {ROOT}/tools/completion/rsock.bash
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _rsock
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    shown = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], capture_output=True,
                           text=True, timeout=20,
                           check=True)
    return set(shown.stdout.split())


def mounts(document):
    """{path in the container: path on the host} of each container."""
    if "services" in document:
        for service in document["services"].values():
            assert all(volume.endswith(":ro") for volume in service["volumes"])
        return [dict(reversed(volume.split(":")[:2]) for volume in service["volumes"])
                for service in document["services"].values()]
    assert all(mount["readOnly"] for container in document["spec"]["containers"]
               for mount in container["volumeMounts"])
    hosts = {volume["name"]: volume["hostPath"]["path"] for volume in document["spec"]["volumes"]}
    return [{mount["mountPath"]: hosts[mount["name"]] for mount in container["volumeMounts"]}
            for container in document["spec"]["containers"]]


def preloads(document):
    if "services" in document:
        return [service["environment"]["LD_PRELOAD"] for service in document["services"].values()]
    return [{one["name"]: one["value"] for one in container["env"]}["LD_PRELOAD"]
            for container in document["spec"]["containers"]]


def kind_of(document):
    return document.get("kind") or ("compose" if "services" in document else "rsockd.conf")


def node_volumes(node):
    """What the DaemonSet mounts of the node; its containers see the node's network and processes.
    """
    spec = node["spec"]["template"]["spec"]
    assert spec["hostNetwork"] and spec["hostPID"]
    volumes = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in spec["volumes"]}
    return [volumes[mount["name"]] for container in spec["initContainers"] + spec["containers"]
            for mount in container["volumeMounts"]]


@case(60)
def containers(t):
    """The examples for containers mount what the library looks for."""
    with open(f"{ROOT}/include/rsock/local.h", encoding="utf-8") as file:
        path = re.search(r'#define RSK_LOCAL_PATH "(.*)"', file.read())[1]
    with open(f"{ROOT}/docs/containers.md", encoding="utf-8") as file:
        examples = re.findall(r"```yaml\n(.*?)```", file.read(), re.S)
    documents = [document for text in examples for document in yaml.safe_load_all(text)]
    t.equal([kind_of(document) for document in documents],
            ["rsockd.conf", "compose", "compose", "rsockd.conf", "DaemonSet", "ConfigMap", "Pod"],
            "examples")
    settings, compose, shared, beside, node, config, pod = documents
    daemon, app = shared["services"]["rsockd"], shared["services"]["app"]
    t.equal([service["volumes"][0] for service in (daemon, app)],
            [f"rsock:{os.path.dirname(path)}", f"rsock:{os.path.dirname(path)}:ro"],
            "the directory that two containers share")
    t.equal((daemon["user"], os.path.dirname(beside["control"])),
            (app["user"], os.path.dirname(path)), "one user, and a directory that it may write to")
    for document in compose, pod:
        for mounted, preload in zip(mounts(document), preloads(document), strict=True):
            t.equal(mounted[os.path.dirname(path)], os.path.dirname(path), "the socket's directory")
            t.check(os.path.basename(mounted[preload]) == "librsock.so",
                    f"what is preloaded: {mounted}")
    t.check(all(volume in node_volumes(node) for volume in
                (os.path.dirname(path), os.path.dirname(mounts(pod)[0][preloads(pod)[0]]))),
            f"the node's directories: {node_volumes(node)}")
    for number, text in enumerate([yaml.dump(settings), yaml.dump(beside),
                                  config["data"]["rsockd.conf"]]):
        with open(t.path(f"{number}.conf"), "w", encoding="utf-8") as file:
            file.write(text)
        t.run([t.tool, "policy", "check", file.name], preload=False)


@case(60)
def completion(t):
    told = tables(t)
    names = {command["name"] for command in told["commands"]}
    t.equal(complete(["rsock", ""]), names | {"--help", "--version"}, "commands")
    for command in told["commands"]:
        options = {option["name"] for option in command["options"]}
        t.equal(complete(["rsock", command["name"], "-"]), options | {"--help"},
                f"options of {command['name']}")
    listed = subprocess.run(["bash", "-c", f". {ROOT}/tools/completion/rsock.bash; printf '%s\\n' "
                                           f"${{!_rsock_values[@]}}"],
                            capture_output=True, text=True, check=True, timeout=20).stdout.split()
    takers = {option["name"] for command in told["commands"] for option in command["options"]
              if option["value"]}
    t.equal(set(listed), takers, "options that take a value")
    t.equal(complete(["rsock", "run", "--log", "d"]), {"debug"}, "values")
    t.equal(complete(["rsock", "stat", "--sort", ""]), set(), "an option of another command")
    t.check(str(os.getpid()) in complete(["rsock", "why", ""]), "processes")
    t.check("true" in complete(["rsock", "run", "--ring-kb", "64", "tru"]), "programs")


def manual():
    """Sections .SS of the manual: options documented in each; and the codes of EXIT STATUS."""
    with open(os.path.join(ROOT, "docs", "man", "rsock.1")) as file:
        text = file.read().replace("\\-", "-")
    options = {}
    for name, body in re.findall(r"^\.SS (\S+)\n(.*?)(?=^\.S[SH] )", text, re.M | re.S):
        options[name] = dict(re.findall(r"^\.TP\n\\fB(-[a-z-]+)\\fR(?: \\fI([A-Z]+)\S*)?", body,
                                        re.M))
    codes = re.search(r"^\.SH EXIT STATUS\n(.*?)^\.SH", text, re.M | re.S).group(1)
    return options, dict(re.findall(r"^\.TP\n\.B (\d+)\n(.*)$", codes, re.M))


@case(60)
def man_page(t):
    told = tables(t)
    options, codes = manual()
    t.equal(set(options), {command["name"] for command in told["commands"]},
            "commands in the manual")
    for command in told["commands"]:
        wanted = {option["name"]: (option["value"] or "").split("=")[0]
                  for option in command["options"]}
        t.equal(options[command["name"]], wanted, f"options of {command['name']} in the manual")
    with open(os.path.join(ROOT, "docs", "man", "rsock.1")) as file:
        synopsis = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH", file.read(), re.M | re.S).group(1)
    listed = set(re.findall(r"\\fBrsock ([a-z]+)\\fR",
                            synopsis)) | set(re.findall(r"\\fR \| \\fB([a-z]+)\\fR \[", synopsis))
    t.equal(listed, {command["name"] for command in told["commands"]}, "commands in the SYNOPSIS")
    t.equal(codes, {str(row["code"]): row["meaning"] for row in told["exits"]},
            "exit codes in the manual")
    shown = subprocess.run(["groff", "-man", "-ww", "-z",
                            os.path.join(ROOT, "docs", "man", "rsock.1")],
                           capture_output=True, text=True, timeout=30, check=True)
    t.equal(shown.stderr, "", "groff's warnings")


@case(60)
def files_that_are_there(t):
    """The manuals name the files that the packages install and the service reads."""
    with open(os.path.join(ROOT, "debian", "rsockd.service")) as file:
        conf = re.search(r"--config (\S+)", file.read()).group(1)
    for page in ("rsockd.conf.5", "rsockd.8"):
        with open(os.path.join(ROOT, "docs", "man", page)) as file:
            named = set(re.findall(r"/etc/[\w/.]*rsockd\.conf", file.read()))
        t.equal(named, {conf}, f"the configuration in {page}")


@case(60)
def help_texts(t):
    told = tables(t)
    text = ask(t, "--help").out()
    for command in told["commands"]:
        says(t, text, f"  {command['name']} ", command["help"])
        for way in ("--help", "-h"):
            shown = ask(t, command["name"], way).out()
            says(t, shown, f"usage: rsock {command['name']}",
                 *(option["help"] for option in command["options"]))
        says(t, ask(t, command["name"], "--nonsense", expect=2).err(),
             f"usage: rsock {command['name']}")
    for row in told["exits"]:
        says(t, text, row["meaning"])
    t.equal(json.loads(ask(t, "reasons", "--json").out())["reasons"][0]["reason"], "direct",
            "reasons")


if __name__ == "__main__":
    raise SystemExit(main())
