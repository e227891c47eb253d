"""The command line. A command is in the file with its name, or with that of its group (`connectors pause`)."""

from __future__ import annotations

import signal
import sys
from typing import Any

import click
from typing_extensions import override

from heeler.cli.broker import broker
from heeler.cli.client.session import cluster_options, pass_on
from heeler.cli.cluster.connectors import connectors
from heeler.cli.cluster.loggers import loggers
from heeler.cli.cluster.offsets import offsets
from heeler.cli.cluster.plugins import plugins
from heeler.cli.cluster.top import top
from heeler.cli.cluster.validate import validate
from heeler.cli.completion import completion
from heeler.cli.console.terminal import escape_what_cannot_be_encoded
from heeler.cli.demo import demo
from heeler.cli.doctor import doctor
from heeler.cli.install import install
from heeler.cli.new import new
from heeler.cli.run import run
from heeler.cli.topics import topics
from heeler.cli.try_ import try_
from heeler.cli.warm import warm
from heeler.cli.worker import worker

_INTERRUPTED = 128 + signal.SIGINT  # the exit code that shells report after Ctrl-C


class Commands(click.Group):
    """Commands whose exit code after Ctrl-C is the shell's."""

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except click.Abort as error:  # a question was answered with Ctrl-C, or with no
            if not isinstance(error.__context__, KeyboardInterrupt):
                raise
            click.echo(err=True)  # so that the shell's prompt begins on a new line
            sys.exit(_INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="heeler", prog_name="heeler")
@cluster_options
@click.pass_context
def main(context: click.Context, /, **options: Any) -> None:
    """Kafka Connect for Python and Spark.

    Cluster options may be given before, within or after a command. The last value wins.
    """
    escape_what_cannot_be_encoded()
    pass_on(context, options)


plugins.add_command(install)
for command in (broker, completion, connectors, demo, doctor, loggers, new, offsets, plugins, run, top, topics, try_,
                validate, warm, worker):
    main.add_command(command)
