"""How an exactly-once sink writes one dead letter for each bad record, whatever fails in between.

The letters of a batch cannot be in one transaction with the sink. So a batch that is repeated, after a failure or by
another task, finds out which of its records have a letter already, and writes only those that are missing. There are
two ways to find out:

- Letters with context headers name their records, so the batch searches the queue for them
  (queue_search_tracker.py, queue_search_sender.py, ADR 0045).
- Without context headers, the transaction that writes letters also commits the offsets of their records, as metadata of
  the consumer group's offset (group_metadata_tracker.py, group_metadata_sender.py, letter_offsets.py, ADR 0054).

The task has a tracker of what is known of each partition. With each split it sends a plan (plans.py) to an executor,
which writes the letters with a sender. The sender's producer has a transactional id of the partition, so it fences the
producer of an earlier attempt before it finds out what that one has written.
"""
