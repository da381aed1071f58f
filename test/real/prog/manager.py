"""A dictionary served by multiprocessing.managers over TCP; clients in four spawned processes check
what they read (real_python.py).
"""
import hashlib
import multiprocessing
import sys
from multiprocessing.managers import BaseManager

ADDRESS = ("127.0.0.1", int(sys.argv[2]))
STORE = {}


class Manager(BaseManager):
    pass


def store():
    return STORE


def client(number):
    Manager.register("store")
    manager = Manager(ADDRESS, b"key")
    manager.connect()
    proxy = manager.store()
    for turn in range(400):
        value = hashlib.sha256(f"{number}/{turn}".encode()).hexdigest() * (1 + turn % 40)
        proxy.update({(number, turn): value})
        if proxy.get((number, turn)) != value:
            sys.exit(f"process {number}, turn {turn}: read another value")


if __name__ == "__main__":
    if sys.argv[1] == "server":
        Manager.register("store", store, exposed=("get", "update", "__len__"))
        try:
            Manager(ADDRESS, b"key").get_server().serve_forever()
        except KeyboardInterrupt:
            pass
    else:
        multiprocessing.set_start_method("spawn")
        processes = [multiprocessing.Process(target=client, args=(number,)) for number in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            sys.exit("a process failed")
        print("right")
