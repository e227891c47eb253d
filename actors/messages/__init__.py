"""All messages between actors, as frozen values.

There are three families: requests (from REST and timers to the herder), commands (from the herder to the actors below
it) and events (from those actors to the herder, always with `tell`). A command carries an `op` number; its outcome is
an event with the same number or, for connectors and tasks, with the `epoch` of the instance, so that the report of an
abandoned instance is not mistaken for its successor's.
"""
