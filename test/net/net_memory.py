#!/usr/bin/python3
"""Scenarios of the other scripts once more, with rsockd under memcheck, then SIGTERM. No byte is
leaked, and none is read or written that must not be. The system call filter is in force, as always.
LeakSanitizer needs ptrace(2), which the filter forbids; memcheck works inside the process.
"""
import os
import signal
import sys

import net_central
import net_cluster
import net_expire
import net_hotplug
import net_local
import net_members
import net_policy
import net_rdma
import net_roles
import net_rsockd
import net_services
import net_traffic
import netlab
from lib.harness import case, main

WRONG = 99
MEMCHECK = ["valgrind", "--quiet", "--vgdb=no", "--leak-check=full", "--show-leak-kinds=all",
            "--errors-for-leak-kinds=all", f"--error-exitcode={WRONG}",
            f"--suppressions={os.path.join(netlab.HERE, 'memcheck.supp')}"]
# memcheck is slow: clients must not repeat requests only because of that
PATIENT = {"client": {"rto-first": "4s", "rto-least": "4s"}}


def answered_from_memory(t):
    """net_rsockd.remembered_for_pm_time for a daemon that is so slow that its answer may be older
    than PmTime when it is used.
    """
    a, _ = net_rsockd.pair(t)
    t.until(lambda: a.map("10.77.0.2", net_rsockd.SERVICE)["outcome"] == "mapped"
            and a.counts("client")["cached"] > 0, 60,
            "an answer from memory")


SCENARIOS = (
    net_rsockd.mapped_and_released,
    net_rsockd.over_ipv6,
    answered_from_memory,
    net_rsockd.a_listen_port_is_made_and_released,
    net_rsockd.silence_is_remembered,
    net_rsockd.a_bad_network,
    net_rsockd.as_iwpmd_speaks_it,
    net_rsockd.the_operator_s_side,
    net_rsockd.nonsense_on_its_socket,
    net_rsockd.an_asker_that_goes,
    net_rsockd.a_reload_while_somebody_waits,
    net_policy.never_more_than_there_is,
    net_policy.a_device_is_drained,
    net_policy.a_reload_changes_what_is_decided,
    net_policy.another_host_answers,
    net_hotplug.a_spare_stands_in,
    net_traffic.a_link_that_goes,
    net_local.two_users_meet,
    net_local.not_allowed,
    net_local.one_after_the_other,
    net_local.fifty_streams_share_a_link,
    net_local.a_reload_takes_it_away,
    net_rdma.from_the_question_to_the_end,
    net_rdma.the_accepting_end_does_not_come,
    net_rdma.another_daemon_is_told_again,
    net_cluster.etcd_goes_and_comes_back,
    net_cluster.answers_of_something_else,
    net_cluster.certificates,
    net_expire.a_start_without_etcd,
    net_expire.what_the_host_does_not_accept,
    net_expire.a_document_that_is_deleted,
    net_members.each_is_seen_with_its_revision,
    net_members.one_that_is_stopped_disappears_and_comes_back,
    net_members.a_name_is_held_by_one,
    net_members.garbage_among_the_members,
    net_services.garbage_among_the_services,
    net_central.an_address_of_several_hosts,
    net_services.etcd_is_restarted,
    net_roles.what_is_open_when_a_role_moves,
)


def ends_clean(t):
    """Stops all daemons that still run; their exit status is memcheck's result."""
    daemons = [proc for proc in t.procs if "valgrind" in proc.argv and proc.popen.poll() is None]
    t.check(daemons, "no daemon was there to be asked")
    for daemon in daemons:
        with open(f"/proc/{daemon.pid}/status") as file:
            t.check("\nSeccomp:\t2\n" in file.read(), "its filter is not in force")
        t.stop(daemon, signal.SIGTERM, 60)
        t.equal(daemon.popen.returncode, 0,
                f"memcheck of {daemon.describe()}: {daemon.err()[-4000:]}")


def register(scenario):
    def under_memcheck(t):
        netlab.UNDER[:] = MEMCHECK
        netlab.DEFAULTS.update(PATIENT)
        scenario(t)
        ends_clean(t)
    under_memcheck.__name__ = scenario.__name__
    case(timeout=240)(under_memcheck)


for one in SCENARIOS:
    register(one)

if __name__ == "__main__":
    sys.exit(main())
