"""How a task replays its dead letter queue between its batches (ADR 0028, ADR 0048).

A request has the parameters (request.py). One replay plans ranges of the queue and tracks what has become of its
letters (replay.py); it takes turns with the task's own batches (task_replays.py). Each range is a split, in which an
executor chooses and counts the letters (letter_range.py) and processes their records as the task's own splits do
(replay_split.py in sinks/ and sources/). Which letters have been replayed (replayed_offsets.py) is stored in the
consumer group of a sink (sinks/replay_commit.py), or with the offsets of a source (source_progress.py).
"""
