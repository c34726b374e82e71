"""`python -m shop.demo`: exit status 0 when every promise was kept and put to the test, 1 otherwise."""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from homing.errors import ConfigurationError, HomingError
from shop.demo.dashboard import open_dashboard
from shop.demo.options import Options, read_options
from shop.demo.report import show_addresses, show_table
from shop.demo.show import play
from shop.demo.verdict import Ledger, complaints, count
from shop.trial.customers import CustomerLostError
from shop.trial.opening import open_stage

FAILED, MISCONFIGURED, INTERRUPTED = 1, 3, 130


async def demonstrate(options: Options, folder: Path, console: Console) -> tuple[Ledger, list[str]]:
    """Set the stage, play, and open the books; returns the numbers and what is wrong with them."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # ends like Ctrl-C: everything stops
    async with open_stage(options, folder, console.print) as stage:
        entrance = await open_dashboard(stage)
        console.print(f"watch it: {entrance}", markup=False)
        played = await play(stage, options, console)
        ledger = count(played.facts, played.kills)
        show_table(ledger, console)
        if options.keep:
            show_addresses(stage, entrance, console)
            await asyncio.Event().wait()
    return ledger, complaints(ledger, played.facts)


def main() -> int:
    """Run a demonstration; the logs stay, the servers' data does not."""
    console = Console(highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="homing-demo-"))
    try:
        ledger, wrong = asyncio.run(demonstrate(read_options(), folder, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print(f"stopped; everything that was started has ended; logs: {folder / 'logs'}", markup=False)
        return INTERRUPTED
    except (HomingError, CustomerLostError, ExceptionGroup) as error:
        for cause in _causes(error):
            console.print(f"✗ {cause}", markup=False)
        console.print(f"logs: {folder / 'logs'}", markup=False)
        return MISCONFIGURED if isinstance(error, ConfigurationError) else FAILED
    finally:
        shutil.rmtree(folder / "servers", ignore_errors=True)
    for words in wrong:
        console.print(f"✗ {words}", markup=False)
    console.print(f"logs: {folder / 'logs'}", markup=False)
    console.print(ledger.line(), markup=False)
    return FAILED if wrong else 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


if __name__ == "__main__":
    sys.exit(main())
