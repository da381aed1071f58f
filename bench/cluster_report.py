"""Prints what cluster.py has measured."""

MIB = 1 << 20
KIB = 1 << 10


def seconds(values):
    return f"{values['median']:.2f} / {values['p99']:.2f} / {values['last']:.2f}"


def rest_rows():
    """Rows of (title, function of the figures at rest)."""
    return (
        ("requests a second at etcd", lambda f: f"{f['requests']:.0f}"),
        ("of these at each node", lambda f: " + ".join(f"{one:.0f}"
                                                       for one in f["requests_by_node"])),
        ("processors of etcd, all nodes", lambda f: f"{f['cpu_s']:.3f}"),
        ("the same a request, µs", lambda f: f"{f['cpu_s'] / f['requests'] * 1e6:.0f}"),
        ("bytes a second that etcd sends to clients, KiB",
         lambda f: f"{f['sent_bytes'] / KIB:.0f}"),
        ("writes a second (raft proposals)", lambda f: f"{f['proposals']:.2f}"),
        ("values written a second", lambda f: f"{f['puts']:.2f}"),
        ("bytes a second to etcd's disks, KiB", lambda f: f"{f['disk_bytes'] / KIB:.1f}"),
        ("memory of etcd, each node, MiB",
         lambda f: " + ".join(f"{node['resident_bytes'] / MIB:.0f}" for node in f["nodes"])),
        ("watches at etcd", lambda f: f"{sum(node['watches'] for node in f['nodes']):.0f}"),
        ("descriptors of etcd, all nodes",
         lambda f: f"{sum(node['descriptors'] for node in f['nodes']):.0f}"),
        ("processor of an agent, ‰",
         lambda f: f"{f['agents_cpu_s'] / f['agents'] * 1000:.2f}"),
        ("processors used by other programs meanwhile", lambda f: f"{f['others_cpu_s']:.2f}"),
        ("memory of an agent, own pages, MiB",
         lambda f: f"{f['agent_private_bytes'] / MIB:.2f}"),
        ("descriptors of an agent", lambda f: f"{f['agent_descriptors']}"),
    )


def tell_rest(rest):
    print("At rest:\n")
    print("| agents | " + " | ".join(f"{n:,}" for n in rest) + " |\n|---|" + "---|" * len(rest))
    for title, cell in rest_rows():
        print(f"| {title} | " + " | ".join(cell(f) for f in rest.values()) + " |")


def start_rows(figures):
    for count, f in figures["start"].items():
        yield (f"start, up to {count:,} agents",
               f"members after {f['members_s']:.0f} s, in sync after {f['whole_s']:.0f} s; "
               f"{f['requests']:,.0f} requests, {f['puts']:,.0f} values written, "
               f"{f['sent_bytes'] / MIB:.1f} MiB sent, {f['cpu_s']:.1f} s of etcd's processors")


def push_rows(figures):
    for f in figures["push"]:
        yield ("push: in force, seconds, median / p99 / last agent",
               f"{seconds(f['in_force_s'])}; told by all members after {f['told_s']:.1f}; "
               f"{f['puts']:,.0f} values written")
    f = figures["list"]
    yield ("the list of members", f"{f['members']:,} in {f['s']:.2f} s, {f['bytes'] / KIB:.0f} KiB")


def decision_rows(figures):
    f = figures["decisions"]
    yield ("decisions", f"{f['accepts']:,} at {f['per_s']:,.0f} a second")
    yield ("etcd for 1,000 decisions, beyond what it does at rest",
           f"{f['puts_per_1000']:.3f} values written, {f['proposals_per_1000']:.3f} proposals")


def ledger_rows(figures):
    f = figures["ledger"]
    yield (f"{f['holders']} agents use {f['each']} each of {f['owners']} RNICs, by quotas",
           f"{f['per_s']:.0f} sessions a second; covered by a quota {f['covered']:,.0f}, asked "
           f"without {f['asked']:,.0f}, not asked since full {f['spared']:,.0f}; "
           f"{f['held']['quotas']:,} quotas held {f['held']['sessions']:,} sessions")
    yield ("etcd for 1,000 of these sessions, beyond what it does at rest",
           f"{f['puts_per_1000']:.0f} values written, {f['requests_per_1000']:,.0f} requests, "
           f"{f['cpu_s_per_1000']:.1f} s of its processors; agents "
           f"{f['agents_cpu_s_per_1000']:.1f} s")
    yield ("changes of quotas and offers",
           f"{f['taken']:,.0f} taken, {f['given']:,.0f} given back, {f['beaten']:,.0f} beaten by "
           f"another host; {f['offers']:,.0f} offers written, {f['events']:,.0f} times told to an "
           f"agent; all given back after {f['given_back_s']:.0f} s")


def service_rows(figures):
    for f in figures["services"]:
        events = max(1, f["events"])
        yield (f"{f['offered']} agents offer a service",
               f"known to all after {f['known_s']:.1f} s; {f['puts']:,.0f} values written, "
               f"{f['events']:,.0f} events heard; for an event {f['etcd_sent_bytes'] / events:.0f} "
               f"bytes, {f['etcd_cpu_s'] / events * 1e6:.0f} µs of etcd's processors, "
               f"{f['agents_cpu_s'] / events * 1e6:.0f} µs of an agent's")
        grown = (f["memory"]["agent_private_bytes"] - f["memory_before"]["agent_private_bytes"])
        yield ("memory of an agent with these, MiB more",
               f"{grown / MIB:.2f} ({grown / f['offered']:.0f} bytes a service)")


def look_rows(figures):
    for f in figures["looks"]:
        yield (f"a look at etcd for {f['keys']:,} entries of services",
               f"{f['cpu_us']:,.0f} µs of etcd's processors; all of them read: "
               f"{f['read_cpu_us']:,.0f} µs, {f['read_bytes'] / KIB:,.0f} KiB")


def return_rows(figures):
    f = figures["return"]
    yield ("all agents return at once",
           f"members after {f['members_s']:.1f} s, in sync after {f['whole_s']:.1f} s; "
           f"{f['requests']:,.0f} requests, at most {f['requests_per_s']['most']:,.0f} a second")


def leader_rows(figures):
    f = figures["leader"]
    yield ("the leader is killed",
           f"a push is taken after {f['push']['accepted_s']:.1f} s, in force at the last agent "
           f"after {f['push']['in_force_s']['last']:.1f} s; all in sync after "
           f"{f['whole_s']:.1f} s; at most {f['requests_per_s']['most']:,.0f} requests a second, "
           f"{f['requests_per_s']['mean']:,.0f} in the mean; {f['lapses']:.0f} leases ended, "
           f"never fewer than {f['least_members']:,} members")


ROWS = {"start": start_rows, "list": push_rows, "decisions": decision_rows,
        "ledger": ledger_rows,
        "services": service_rows, "looks": look_rows, "return": return_rows, "leader": leader_rows}


def tell(figures):
    """The parts that are there."""
    order = "an order of its own each" if figures["spread"] else "the same order"
    print(f"{figures['agents']:,} agents, etcd on 3 nodes, endpoints in {order}\n")
    if figures["rest"]:
        tell_rest(figures["rest"])
    print("\n| what | figures |\n|---|---|")
    for part, rows in ROWS.items():
        for title, text in rows(figures) if part in figures else ():
            print(f"| {title} | {text} |")
