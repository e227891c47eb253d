"""Chooses how an executor writes the dead letters of a batch."""

from __future__ import annotations

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.group_metadata_sender import GroupMetadataSender
from spark_tasks.dead_letters.exactly_once.plans import GroupMetadataPlan, SendPlan
from spark_tasks.dead_letters.exactly_once.queue_search_sender import QueueSearchSender
from spark_tasks.dead_letters.exactly_once.sender import AtLeastOnceSender, ExactlyOnceSender
from spark_tasks.kafka.cluster import TopicPartition


def sender_of(
    handling: ErrorHandling, place: TopicPartition, plan: SendPlan | None
) -> ExactlyOnceSender | AtLeastOnceSender:
    """Returns the sender of one batch of a partition. `plan`: None for at least once."""
    if plan is None:
        return AtLeastOnceSender()
    if isinstance(plan, GroupMetadataPlan):
        return GroupMetadataSender(handling, place, plan)
    return QueueSearchSender(handling, place, plan)
