"""Reads what callgrind has written of one thread: instructions, system calls, calls of a function.

Names are written once and numbered: "fn=(7) send", then "fn=(7)"; "'2" after a name is the depth of
a recursion. The line after "calls=" has the costs of those calls, all others a function's own."""
import collections
import re

NAME = re.compile(r"(c?fn)=\((\d+)\)(?: (\S+))?")
COST = re.compile(r"[-+*\d]\S* (\d+(?: \d+)*)$")
# Without a vDSO, which programs under valgrind do not have, these are system calls.
VDSO = re.compile(r"(clock_gettime|gettimeofday|time|getcpu|sched_getcpu)(@|$)")


class Profile:
    """instructions: of all functions; system_calls: those that are some without valgrind as well;
    calls: {name: number}."""

    def __init__(self, text):
        events = re.search(r"^events: (.+)$", text, re.M)[1].split()
        ir, sys_count = events.index("Ir"), events.index("sysCount")
        self.instructions, self.calls = 0, collections.Counter()
        names, makes, asked = {}, set(), collections.Counter()
        function, called, of_calls = None, None, False
        for line in text.splitlines():
            name = NAME.match(line)
            if name:
                if name[3]:
                    names[name[2]] = name[3].split("'")[0]
                if name[1] == "fn":
                    function = name[2]
                else:
                    called = name[2]
            elif line.startswith("calls="):
                self.calls[names[called]] += int(line[len("calls="):].split()[0])
                of_calls = True
            elif function and (cost := COST.match(line)):
                costs = [*map(int, cost[1].split()), 0, 0, 0]
                if of_calls:
                    asked[called] += costs[sys_count]
                    asked[function] -= costs[sys_count]
                else:
                    self.instructions += costs[ir]
                    if costs[sys_count]:
                        makes.add(function)
                of_calls = False
        # A function's own count of system calls is not cleared by callgrind_control --zero, that of
        # calls is: what went in, less what went on to others.
        self.system_calls = sum(max(0, number) for function, number in asked.items()
                                if function in makes and not VDSO.match(names[function]))
