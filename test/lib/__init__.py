"""What the Python programs of several folders share. Each of these folders has a link here, so that
all of them import in one way, `from lib.harness import case, main`, and their scripts run from
anywhere without a path to set.

harness.py   cases of test scripts: Test, @case, main()
stats.py     what a test script demands of streams
processes.py what tests and measurements do with processes and ports (bench/stages.py too)
streams.py   what librsock says about streams (bench/stages.py too)
daemon.py    questions to the rsockd of a host (test/net, test/rdma)
runner.py    the processes of test/differ's programs (test/soak too)
nginx.py, redis.py  these servers (test/real, test/fault)
cases.cmake  registers the cases of a script
"""
