"""Contestants of the benchmark: each module is a process that measures one thing and prints one line of JSON.

    python -m scripts.contestants.training_step --network=pspnet50 --crop=473 --towers=2 --batch=2 --norm=sync

The driver is scripts/benchmark.py; what is compared with what is in scripts/benchmark_contests.py.
"""
