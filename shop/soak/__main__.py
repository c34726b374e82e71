"""`python -m shop.soak`: exit status 0 when every promise was kept under every fault of the plan, 1 otherwise."""

import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from homing.errors import ConfigurationError, HomingError
from shop.soak.options import Options, read_options
from shop.soak.plan import Strike, draw_flushes, draw_plan, summarize
from shop.soak.run import CAST, Soak
from shop.soak.verdict import Outcome, complaints, count
from shop.trial.opening import Given, open_stage

FAILED, MISCONFIGURED, INTERRUPTED = 1, 3, 130
MOST_OPEN_ENDS = 30


def main(arguments: Sequence[str]) -> int:
    """Soak, and keep the whole folder when something was wrong; otherwise the logs stay and the servers' data does not."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    folder = Path(tempfile.mkdtemp(prefix="homing-soak-"))
    kept = folder
    try:
        options = read_options(arguments)
        plan = _plan(options)
        console.print("\n".join([_headline(options), *summarize(plan)]))
        outcome = asyncio.run(_soak(options, plan, folder, _teller(console, folder / "faults.log")))
        ledger = count(outcome)
        wrong = complaints(ledger, outcome)
        if not wrong:
            shutil.rmtree(folder / "servers", ignore_errors=True)
            kept = folder / "logs"
        console.print("\n".join([*_explain(wrong, outcome, folder), f"kept: {kept}", ledger.line()]))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print(f"stopped; everything that was started has ended; kept: {folder}")
        return INTERRUPTED
    except (HomingError, ExceptionGroup) as error:
        console.print("\n".join([*(f"✗ {cause}" for cause in _causes(error)), f"kept: {folder}"]))
        return MISCONFIGURED if isinstance(error, ConfigurationError) else FAILED
    return FAILED if wrong else 0


async def _soak(options: Options, plan: Sequence[Strike], folder: Path, tell: Callable[[str], None]) -> Outcome:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # ends like Ctrl-C: everything stops
    async with open_stage(options, folder, tell, cast=CAST, given=Given()) as stage:
        return await Soak(stage, options, plan, tell).run()


def _plan(options: Options) -> tuple[Strike, ...]:
    dice = options.dice("faults")
    if options.flushes is not None:
        return draw_flushes(dice, seconds=options.seconds, flushes=options.flushes)
    return draw_plan(dice, seconds=options.seconds, strikes=options.strikes)


def _headline(options: Options) -> str:
    return f"{options.orders} orders over {options.seconds} s; again with SEED={options.seed}; what will go wrong:"


def _teller(console: Console, log: Path) -> Callable[[str], None]:
    """Say things with the time, to the terminal and into a file."""
    start = time.monotonic()

    def tell(words: str) -> None:
        line = f"{time.monotonic() - start:7.1f} s  {words}"
        console.print(line)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {line}\n")

    return tell


def _explain(wrong: Sequence[str], outcome: Outcome, folder: Path) -> Iterator[str]:
    """What is wrong, and where to look."""
    if not wrong:
        return
    yield from (f"✗ {words}" for words in wrong)
    yield from outcome.open_ends[:MOST_OPEN_ENDS]
    lost = [
        order.id for order in outcome.facts.orders if not (order.captures == 1 and order.parcels == order.parcels_due)
    ]
    yield from (f"order {order_id}" for order_id in lost[:MOST_OPEN_ENDS])
    yield f"look: grep -h ID {folder}/logs/*.log, faults in {folder}/faults.log, the servers' data in {folder}/servers"


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
