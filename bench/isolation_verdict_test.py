#!/usr/bin/env python3
"""The verdict says HELD, MISSED and "out of reach" where each is due. Run by ctest."""

import sys
import unittest

sys.dont_write_bytecode = True  # nothing beside the sources

from isolation_verdict import Row, frontier_row, is_quiet, judge

# One in flight costs the writer a third and the reader three times its latency; two cost less
# of the writer and more of the reader.
SLOW_DISK = [Row("1 in flight", 390, 3.0, 0.67), Row("2 in flight", 590, 4.5, 0.95),
             Row("3 in flight", 800, 6.1, 0.99), Row("128 in flight", 24000, 181, 1.0)]


class Verdict(unittest.TestCase):
    def test_one_setting_that_keeps_both_is_enough(self):
        held, text = judge([Row("deep", 900, 7.5, 1.0), Row("good", 240, 2.0, 0.9)], SLOW_DISK)
        self.assertTrue(held)
        self.assertIn("good", text)

    def test_missed_where_the_disk_itself_can(self):
        fast = SLOW_DISK + [Row("4 in flight", 250, 1.9, 0.93)]
        held, text = judge([Row("a", 300, 2.4, 0.95)], fast)
        self.assertFalse(held)
        self.assertIn("4 in flight", text)

    def test_half_of_the_promise_is_none(self):
        for row in (Row("reader only", 200, 1.6, 0.5), Row("writer only", 24000, 181, 1.0)):
            self.assertIn("REACH", judge([row], SLOW_DISK)[1])

    def test_out_of_reach_needs_every_setting_near_the_frontier(self):
        near = Row("near", 490, 3.8, 0.95)
        far = Row("far", 750, 5.8, 0.90)  # 2 in flight: 590
        self.assertEqual(judge([near], SLOW_DISK)[0], True)
        held, text = judge([near, far], SLOW_DISK)
        self.assertFalse(held)
        self.assertIn("far", text)
        self.assertNotIn("near,", text)

    def test_compares_with_the_least_share_that_is_enough(self):
        self.assertEqual(frontier_row(Row("x", 1, 1, 0.67), SLOW_DISK).name, "1 in flight")
        self.assertEqual(frontier_row(Row("x", 1, 1, 0.68), SLOW_DISK).name, "2 in flight")
        self.assertIsNone(frontier_row(Row("x", 1, 1, 1.01), SLOW_DISK))
        self.assertTrue(judge([Row("faster than the disk alone", 9e9, 9e9, 1.01)], SLOW_DISK)[0])

    def test_a_disk_that_works_for_others_is_not_quiet(self):
        self.assertTrue(is_quiet([117, 131, 140]))
        self.assertFalse(is_quiet([117, 614, 130]))


if __name__ == "__main__":
    unittest.main()
