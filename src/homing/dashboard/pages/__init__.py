"""The pages, one module for each place.

To add a page:

1. Write `pages/<place>.py`: an `async def` for each page, which takes a `Visit` and returns `visit.page("<place>.html", …)`. It reads what
   the address asks for with `visit.query` (what makes no sense is a 400 by itself), asks `homing.operations` with `visit.ledger` and
   `visit.engine`, and catches nothing: `UnknownId`, `Refused` and `ServerUnavailable` become pages. List them as `ROUTES`, with `page(path, …)`.
2. A deed is a `deed(path, …)`: a POST whose token is checked before. It takes `visit.reasoned()` (or `visit.person(None)`) to the operation,
   which decides whether that role may, and ends with `visit.go(path, "what was done")`. `visit.may("redrive")` only hides buttons.
3. Write `templates/<place>.html` on `layout.html` with the macros of `parts.html`: `live` around what refreshes itself, `spark`, `when`, `ago`,
   `state`, `command` (copy as command), `confirm` (a deed with its dry run and a reason), `more` (the next page). Everything is escaped; nothing
   is written with `|safe`; no `style=` and no `on…=`: the policy forbids both.
4. Add the `ROUTES` below, and a `Place` to `navigation.py`.
5. Test it as `tests/integration/dashboard` does: by requests to the application, with hostile names.
"""

from homing.dashboard.pages import (
    actions,
    campaigns,
    case,
    deadletters,
    deeds,
    entrance,
    flows,
    jobs,
    outbox,
    overview,
    queues,
    schedules,
    search,
    workers,
)

PAGES = (
    *entrance.ROUTES,
    *overview.ROUTES,
    *queues.ROUTES,
    *jobs.ROUTES,
    *case.ROUTES,
    *deeds.ROUTES,
    *search.ROUTES,
    *outbox.ROUTES,
    *deadletters.ROUTES,
    *campaigns.ROUTES,
    *deadletters.LETTER,
    *schedules.ROUTES,
    *flows.ROUTES,
    *workers.ROUTES,
    *actions.ROUTES,
)
