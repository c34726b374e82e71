"""The alerts as Prometheus reads them: YAML, written by hand because the shape is small and no library is needed for it."""

from homing.metrics import METRICS
from monitoring.alerts import GROUPS, Alert

HEADER = f"""\
# Alert rules of Homing, over {len(METRICS)} metrics: made by `python -m monitoring` from monitoring/alerts.py. What each means and
# what to do: docs/howto/alerts.md. Scrape with honor_labels: true, or the label `job` of ours becomes `exported_job`.
groups:
"""


def rules_text() -> str:
    """The file."""
    return HEADER + "".join(_group(name, alerts) for name, alerts in GROUPS.items())


def _group(name: str, alerts: tuple[Alert, ...]) -> str:
    return f"  - name: {name}\n    rules:\n" + "".join(_rule(alert) for alert in alerts)


def _rule(alert: Alert) -> str:
    return f"""\
      - alert: {alert.name}
        expr: |-
          {alert.expr}
        for: {alert.wait}
        labels:
          severity: {alert.severity}
        annotations:
          summary: |-
            {alert.summary}
          description: |-
            {alert.remedy}
"""
