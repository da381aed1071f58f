# Behaviours known to differ from kernel TCP when both sides are preloaded: docs/gaps.md says why. They run, and
# are expected to fail: one that starts to pass fails the suite, so that it is taken off here and there.
set(app_gaps)
