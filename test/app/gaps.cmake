# Behaviours known to differ from kernel TCP when both sides are preloaded: docs/gaps.md says why.
# They run, and are expected to fail: if one starts to pass, the suite fails, so that it is removed
# from both lists.
set(app_gaps)
