"""A process of the gateway: `python -m headgate.app.workers NAME DESCRIPTOR`.

Only the supervisor starts it. The descriptor is its end of the control channel.
"""

import logging
import signal
import socket
import sys

from headgate.app.runtime.logs import log_prints_of_python, set_up_logging
from headgate.app.server import Exposed
from headgate.app.settings import settings_of
from headgate.app.transport.certificate import UnusableCertificate
from headgate.app.workers import engine_process, worker
from headgate.app.workers.channel import read_orders
from headgate.app.workers.child import Role, answer_with_stack
from headgate.app.workers.hub import kill_with_supervisor, report_failure
from headgate.engine.errors import StreamError

log = logging.getLogger("headgate")


def main(name: str, descriptor: str) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # of the terminal, for all its processes
        signal.signal(number, signal.SIG_IGN)  # the supervisor says what is to be done
    kill_with_supervisor(is_so=True)
    end = socket.socket(fileno=int(descriptor))
    end.set_inheritable(False)
    try:
        orders = read_orders(end)
    except (EOFError, OSError):
        sys.exit(1)  # the supervisor has ended
    answer_with_stack(orders.stack)
    settings = settings_of(orders.settings)
    set_up_logging(settings.log_level, name, log_requests=settings.log_requests)
    log_prints_of_python()
    run, place = worker.run, ""
    if name == Role.ENGINE:
        run, place = engine_process.run, f"{settings.data_dir}: "
    try:
        run(settings, orders, end)
    except (UnusableCertificate, Exposed, StreamError, OSError, ValueError) as error:
        report_failure(end, f"{place}{error}")
        sys.exit(1)
    except Exception as error:
        log.critical("process failed", exc_info=error)
        report_failure(end, f"the {name} process has failed: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
