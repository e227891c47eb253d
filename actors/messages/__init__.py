"""Everything that crosses an actor boundary, as frozen values.

Three families: requests (REST and timers to the herder), commands (herder to the actors below it) and events (those
actors back to the herder). Upward is always `tell`. A command carries an `op` number; its outcome comes back in an
event with the same number, or, for connectors and tasks, with the `epoch` of the instance that it is about, so that
an instance that was given up cannot speak for its successor.
"""
