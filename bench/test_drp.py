#!/usr/bin/env python3
"""Tests of drp.py: its wire and its state machines computed by hand, and that every byte reaches
its place, whatever is lost. Tests of mechanisms.py: the figures of Model."""
import pathlib
import random
import tempfile
import unittest

import drp
import mechanisms
from drp import DYNAMIC, TRADITIONAL, Model, Transfer, transfers

WIRE = {payload: max(payload + drp.HEADER_BYTES + drp.DRP_BYTES,
                     drp.SHORTEST_BYTES) * drp.NS_PER_BYTE for payload in (0, 1024)}


class Dice:
    """A random() with fixed outcomes: a list of hits and misses, then only misses."""

    def __init__(self, *hits):
        self.hits = list(hits)

    def random(self):
        return 0.0 if self.hits and self.hits.pop(0) else 1.0


def model(method=DYNAMIC, **more):
    return Model(**{"method": method, "bytes": 1024, "register_ns": 1000, "request_ns": 100_000,
                    "repeat_ns": 50_000, "wire_ns": 500, **more})


def way(payload=0):
    return WIRE[payload] + 500


# Request, registration, answer, data, ACK, release, released.
PLAIN = way() + 1000 + way() + way(1024) + way() + way() + way()


class TimeTests(unittest.TestCase):
    def test_a_frame_by_hand(self):
        for method in (TRADITIONAL, DYNAMIC):
            done = Transfer(model(method), Dice()).run()
            self.assertEqual((done.ns, done.requests, done.sent, done.indirect, done.placed),
                             (PLAIN, 1, 1, 0, 1024))

    def test_frames_follow_each_other(self):
        done = Transfer(model(bytes=4096), Dice()).run()
        self.assertEqual(done.ns, PLAIN + 3 * WIRE[1024])

    def test_a_window_waits_for_its_first(self):
        one, two = (Transfer(model(bytes=4096, window=window), Dice()).run().ns
                    for window in (1, 4))
        self.assertEqual(one - two, 3 * (way(1024) + way() - WIRE[1024]))


class AutomatonTests(unittest.TestCase):
    """fails and lost are 0.5: a value below is a hit."""

    def test_a_registration_fails(self):
        slow = Transfer(model(TRADITIONAL, fails=0.5), Dice(True)).run()
        refused = way() + 1000 + way()
        self.assertEqual((slow.ns, slow.requests, slow.refused, slow.indirect),
                         (refused + 100_000 + PLAIN, 2, 1, 0))
        quick = Transfer(model(DYNAMIC, fails=0.5), Dice(True)).run()
        self.assertEqual((quick.requests, quick.refused, quick.indirect, quick.placed),
                         (2, 1, 1, 1024))
        # The data were sent meanwhile; the request was repeated after its own timeout.
        self.assertEqual(quick.ns, refused + 100_000 + way() + 1000 + way() + way() + way())

    def test_who_goes_on_indirectly_asks_again_early(self):
        done = Transfer(model(fails=0.5, again_ns=3000), Dice(True, True)).run()
        self.assertEqual((done.requests, done.refused, done.indirect), (3, 2, 1))
        answered = way() + 1000 + way()
        data = answered + WIRE[1024]  # is sent first; the request follows when the wire is free
        again = max(answered + 3000, data) + way() + 1000 + 500 + WIRE[0]
        self.assertEqual(done.ns, again + 3000 + way() + 1000 + way() + way() + way())
        self.assertEqual(Transfer(model(TRADITIONAL, fails=0.5, again_ns=3000),
                                  Dice(True)).run().ns, answered + 100_000 + PLAIN)

    def test_a_request_is_lost(self):
        for method in (TRADITIONAL, DYNAMIC):
            done = Transfer(model(method, lost=0.5), Dice(True)).run()
            self.assertEqual((done.ns, done.requests, done.indirect), (100_000 + PLAIN, 2, 0))

    def test_at_the_second_timeout_it_waits_no_longer(self):
        slow = Transfer(model(TRADITIONAL, lost=0.5), Dice(True, True)).run()
        self.assertEqual((slow.ns, slow.requests, slow.indirect), (200_000 + PLAIN, 3, 0))
        quick = Transfer(model(DYNAMIC, lost=0.5), Dice(True, True)).run()
        self.assertEqual((quick.requests, quick.indirect), (3, 1))
        # Data first, then the third request right after it; its answer comes after the data's ACK.
        self.assertEqual(quick.ns, 200_000 + WIRE[1024] + way() + 1000 + way() + way() + way())

    def test_a_valid_answer_is_lost(self):
        done = Transfer(model(lost=0.5), Dice(False, True)).run()
        self.assertEqual((done.requests, done.lost, done.indirect), (2, 1, 0))
        self.assertEqual(done.ns, 100_000 + PLAIN - 1000)  # it is registered already

    def test_a_release_is_lost(self):
        for lost in ((4,), (5,)):
            hits = [number in lost for number in range(6)]
            done = Transfer(model(lost=0.5), Dice(*hits)).run()
            self.assertEqual((done.lost, done.placed), (1, 1024))
            self.assertEqual(done.ns, PLAIN - way() - way() + 100_000 + way() + way())


    def test_at_how_many_timeouts_is_a_parameter(self):
        for timeouts, begins in ((0, 0), (1, 100_000), (2, 200_000)):
            done = Transfer(model(timeouts=timeouts, lost=0.5), Dice(True, True, True),
                            Dice()).run()
            # Three requests are lost, the fourth is sent after three timeouts.
            self.assertEqual((done.requests, done.indirect), (4, 1))
            wait = WIRE[0] if not timeouts else 0  # the request before the data
            self.assertEqual(done.acked_ns, begins + wait + way(1024) + way())
            self.assertEqual(done.ns, 300_000 + way() + 1000 + way() + way() + way())

    def test_a_full_buffer_holds_the_sender_back(self):
        # Registered after the fourth request; 4 of 8 frames have room until then.
        of = {"bytes": 8 << 10, "lost": 0.5, "move_ns_per_kib": 0}
        lost = (True, True, True)
        full = Transfer(model(buffer_bytes=4 << 10, **of), Dice(*lost), Dice()).run()
        room = Transfer(model(**of), Dice(*lost), Dice()).run()
        self.assertEqual((full.indirect, full.sent, full.placed), (4, 8, 8 << 10))
        self.assertEqual((room.indirect, room.sent, room.placed), (8, 8, 8 << 10))
        self.assertEqual(full.ns - room.ns, 3 * WIRE[1024] + way(1024) + way())


class BusTests(unittest.TestCase):
    def test_each_direct_frame_is_a_request(self):
        done = Transfer(model(bytes=4096, bus_ns=20_000), Dice()).run()
        self.assertEqual(done.ns, PLAIN + 4 * 20_000)  # the wire is quicker

    def test_the_wire_hides_a_short_one(self):
        done = Transfer(model(bytes=4096, bus_ns=2_000), Dice()).run()
        self.assertEqual(done.ns, PLAIN + 3 * WIRE[1024] + 2_000)

    def test_the_buffer_is_one_request(self):
        for bytes_ in (1024, 4096):
            done = Transfer(model(bytes=bytes_, lost=0.5, bus_ns=20_000), Dice(True, True, True),
                            Dice()).run()
            moved = 20_000 + 300 * bytes_ // 1024
            self.assertEqual(done.ns, 300_000 + way() + 1000 + moved + way())
            self.assertEqual(done.acked_ns, 200_000 + bytes_ // 1024 * WIRE[1024] + 500 + way())


class LossTests(unittest.TestCase):
    def losses(self, **more):
        wire = drp.Direction(model(**more), random.Random(1), random.Random(2), drp.Outcome())
        return [wire.loses("data") for _ in range(50_000)]

    def test_bursts_lose_as_many(self):
        for burst in (1, 2, 4):
            lost = self.losses(lost=0.1, burst=burst)
            self.assertAlmostEqual(sum(lost) / len(lost), 0.1, delta=0.01)
            begun = sum(now and not before for before, now in zip(lost, lost[1:]))
            mean = burst if burst > 1 else 1 / 0.9
            self.assertAlmostEqual(sum(lost) / begun, mean, delta=0.1 * mean)

    def test_spared_frames_are_never_lost(self):
        self.assertFalse(any(self.losses(lost=0.5, spared="data")))
        for spared in ("data", "control"):
            done = [Transfer(model(bytes=8192, lost=0.2, spared=spared), random.Random(seed),
                             random.Random(seed + 99)).run() for seed in range(50)]
            self.assertEqual(any(each.requests > 1 for each in done), spared == "data")
            self.assertEqual(any(each.sent > 8 for each in done), spared == "control")

    def test_fewer_acknowledgements(self):
        one, eight = (Transfer(model(bytes=16 << 10, ack_every=every, repeat_ns=10**9),
                               Dice()).run() for every in (1, 8))
        # The second window begins with the first frame's acknowledgement, or with the eighth's.
        self.assertEqual(eight.ns - one.ns, way(1024) + way() - WIRE[1024])


class BothTests(unittest.TestCase):
    """What makes a difference of 0.3 % visible: losses are the same for either method."""

    def test_a_run_is_shared_where_nothing_differs(self):
        shared = 0
        for number in range(200):
            of = Model(lost=0.1, fails=0.05)
            slow, quick = drp.both(of, 1, number)
            alone = drp.transfer(of, 1, number)
            self.assertEqual(quick, alone)
            shared += slow is quick
        self.assertTrue(0 < shared < 200)

    def test_dynamic_is_never_slower_where_frames_are_lost(self):
        # Figure 5's sign: no transfer is slower, those whose requests timed out twice are quicker.
        pairs = [drp.both(Model(lost=0.1, **mechanisms.FITTED), 1, number)
                 for number in range(400)]
        self.assertTrue(all(quick.ns <= slow.ns for slow, quick in pairs))
        self.assertEqual([quick.ns < slow.ns for slow, quick in pairs],
                         [slow.requests > 2 for slow, quick in pairs])
        self.assertGreater(sum(slow.requests > 2 for slow, _ in pairs), 5)

    def test_data_are_lost_independently_of_requests(self):
        runs = [drp.transfer(Model(bytes=1024, lost=0.3), 1, number) for number in range(400)]
        # Either needs two frames in a row to arrive: probability 0.49, so 0.5 that they differ.
        differ = sum((done.requests == 1) != (done.sent == 1) for done in runs)
        self.assertAlmostEqual(differ / len(runs), 0.5, delta=0.1)

    def test_the_size_of_frames_changes_no_failure(self):
        runs = [[drp.both(Model(fails=0.2, payload=payload), 1, number)[0].refused
                 for number in range(100)] for payload in (256, 1024)]
        self.assertEqual(*runs)


class RepeatTests(unittest.TestCase):
    def test_duplicates_repeat_what_is_missing_alone(self):
        for keeps, sent in ((True, 9), (False, 16)):
            done = Transfer(model(bytes=8192, lost=0.5, keeps=keeps, repeat_ns=10**9),
                            Dice(False, False, True)).run()
            self.assertEqual((done.sent, done.placed, done.lost), (sent, 8192, 1))
            self.assertLess(done.ns, 10**9)  # no timeout was involved

    def test_the_last_one_waits_for_its_timer(self):
        done = Transfer(model(lost=0.5), Dice(False, False, True)).run()
        self.assertEqual((done.sent, done.ns), (2, PLAIN + 50_000))

    def test_every_byte_gets_to_its_place_once(self):
        for method in (TRADITIONAL, DYNAMIC):
            for keeps in (True, False):
                for done in transfers(Model(method=method, bytes=20_000, fails=0.3, lost=0.3,
                                            keeps=keeps), 50, 7):
                    self.assertEqual(done.placed, 20_000)
                    self.assertGreaterEqual(done.sent, 20)

    def test_a_seed_is_a_run(self):
        runs = [[done.ns for done in transfers(Model(fails=0.1, lost=0.1), 20, seed)]
                for seed in (3, 3, 4)]
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_nothing_fails_nothing_differs(self):
        first, second = (transfers(Model(method=method), 3, 1) for method in (TRADITIONAL, DYNAMIC))
        self.assertEqual([done.ns for done in first], [done.ns for done in second])


class FigureTests(unittest.TestCase):
    def cells(self):
        return [mechanisms.measure((point, 2, 2)) for point in mechanisms.points()
                if point.percent in (0, 1, 5, 10)]

    def test_tables_and_plots(self):
        cells = self.cells()
        lines = mechanisms.markdown(cells)
        self.assertIn("| the paper | -1.9 % | -4.9 % | -8.8 % |", lines)
        self.assertEqual([figure for figure in "456"
                          if any(f"Figure {figure}, modelled: " in line for line in lines)],
                         ["4", "5", "6"])
        self.assertFalse(any("Figure" in line and "modelled" not in line for line in lines))
        self.assertEqual(sum(line.startswith("| as fitted") for line in lines), 1)
        self.assertEqual(sum("| request_ns" in line for line in lines), 3)
        with tempfile.TemporaryDirectory() as folder:
            drawn = mechanisms.draw(cells, pathlib.Path(folder) / "m")
            self.assertEqual(len(drawn), 3)
            self.assertTrue(all(b"traditional" in path.read_bytes() for path in drawn))

    def test_the_fit_has_the_nearest_first(self):
        class Here:
            @staticmethod
            def map(work, points, **_how):
                return [work(point) for point in points]
        title, *lines = mechanisms.fit(Here, 10)
        self.assertIn("modelled", title)
        off = [float(line.split()[0]) for line in lines]
        self.assertEqual((len(off), off), (96, sorted(off)))
        self.assertLess(off[0], off[-1])

    def test_the_plot_has_each_point(self):
        text = mechanisms.script(self.cells(), "4", "x")
        self.assertEqual([line.split()[0] for line in text.splitlines() if line[:1].isdigit()],
                         ["0", "1", "5", "10"] * 2)
        self.assertIn('set title "Figure 4, modelled: ', text)


if __name__ == "__main__":
    unittest.main()
