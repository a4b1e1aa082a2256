"""The bytes of tensors that a step holds at once, from the allocations that TensorFlow traces.

Unlike the size of the process, they count no library, no graph, and none of what an allocator keeps for later.
"""

import tensorflow.compat.v1 as tf


def peak(session, fetches, feed):
    """The most bytes that the ops of one step held at once.

    Variables do not count: the step finds them there. Tensors that an op updates in place count once, and working space of
    an op counts while it runs.

    Args:
        session: a session in which all is initialised.
        fetches, feed: the step.

    Returns:
        An int.

    Raises:
        SystemExit: this TensorFlow traces no allocations.
    """
    metadata = tf.RunMetadata()
    session.run(fetches, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    records = [(record.alloc_micros, record.alloc_bytes) for device in metadata.step_stats.dev_stats
               for node in device.node_stats for memory in node.memory for record in memory.allocation_records]
    if not records:
        raise SystemExit("TensorFlow {} traces no allocations on this device".format(tf.__version__))
    return largest_sum(records)


def largest_sum(records):
    """The largest sum so far over (time, change) pairs in the order of time; at one time, what is freed goes first."""
    largest = total = 0
    for _, change in sorted(records):
        total += change
        largest = max(largest, total)
    return largest
