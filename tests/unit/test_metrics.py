"""What a process counts, and how it is read."""

import re
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from homing.metrics import METRICS, Metric, Metrics
from homing.metrics.declared import JOB_DURATION, JOB_RUNS, PARKED_JOBS, PAUSED, RUNNING

_LABELS = {
    *("topic", "consumer", "queue", "schedule", "job", "state", "outcome", "reason"),
    *("backend", "loop", "table", "error_type"),
    *("version", "python", "engine"),  # of the one series that says what runs here
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_has_a_valid_name_known_labels_and_a_meaning(metric: Metric) -> None:
    """Names follow Prometheus's rules, and no label is an id or a fingerprint."""
    assert re.fullmatch(r"homing_[a-z_]+", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert (metric.kind == "histogram") == bool(metric.buckets)
    assert list(metric.buckets) == sorted(metric.buckets)
    assert set(metric.labels) <= _LABELS
    assert metric.meaning.endswith(".")


def test_no_two_metrics_share_a_name() -> None:
    """Neither in Prometheus nor in OpenTelemetry."""
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert len({metric.otel_name for metric in METRICS}) == len(METRICS)


def test_what_was_counted_is_exposed_with_the_app() -> None:
    """Every series says which app it is of; hostile label values stay values."""
    metrics = Metrics("shop")
    metrics.count(JOB_RUNS, 'mail"\n{', "send\x1b[31m", "completed", by=2)
    metrics.observe(JOB_DURATION, "mail", "send", seconds=0.3)
    metrics.set(RUNNING, "mail", to=3)
    families = {f.name: f for f in text_string_to_metric_families(generate_latest(metrics.registry).decode())}
    (runs,) = [s for s in families["homing_job_runs"].samples if s.name == "homing_job_runs_total"]
    assert runs.labels == {"app": "shop", "queue": 'mail"\n{', "job": "send\x1b[31m", "outcome": "completed"}
    assert runs.value == 2
    assert [s.value for s in families["homing_worker_running_jobs"].samples] == [3]
    assert {s.value for s in families["homing_job_duration_seconds"].samples if s.labels.get("le") == "0.5"} == {1}


def test_a_gauge_forgets_what_is_true_no_more() -> None:
    """After `replace` what is not there any more is zero."""
    metrics = Metrics("shop")
    metrics.replace(PARKED_JOBS, {("mail", "old"): 1})
    metrics.replace(PARKED_JOBS, {("mail", "new"): 2})
    text = generate_latest(metrics.registry).decode()
    assert 'job="new",queue="mail"} 2.0' in text
    assert 'job="old",queue="mail"} 0.0' in text


def test_hostile_labels_break_no_scrape() -> None:
    """Half a surrogate, a megabyte, line ends: what a producer calls its jobs is cut and escaped."""
    metrics = Metrics("shop")
    for name in ("\ud800", "x" * 1_000_000, 'a\nb"}\n# EOF', ""):
        metrics.set(PARKED_JOBS, "mail", name, to=1)
    text = generate_latest(metrics.registry).decode()
    assert len(text) < 100_000
    parked = next(f for f in text_string_to_metric_families(text) if f.name == "homing_jobs_parked")
    assert [len(sample.labels["job"]) for sample in parked.samples] == [1, 200, 11, 0]


def test_two_apps_in_a_process_do_not_mix() -> None:
    """Each has a registry of its own."""
    shop, bank = Metrics("shop"), Metrics("bank")
    shop.count(JOB_RUNS, "q", "j", "completed")
    assert 'app="shop"' not in generate_latest(bank.registry).decode()


def test_many_threads_lose_no_count() -> None:
    """Whoever counts while another reads: every value is in the sums once, in its bucket."""
    metrics = Metrics("shop")

    def count() -> None:
        for number in range(2_500):
            metrics.count(JOB_RUNS, "mail", "send", "completed")
            metrics.observe(JOB_DURATION, "mail", "send", seconds=(0.005, 0.3, 9_999.0)[number % 3])

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.flush()
    labels = {"app": "shop", "queue": "mail", "job": "send"}
    assert metrics.registry.get_sample_value("homing_job_runs_total", labels | {"outcome": "completed"}) == 10_000
    buckets = {
        bound: metrics.registry.get_sample_value("homing_job_duration_seconds_bucket", labels | {"le": bound})
        for bound in ("0.005", "0.25", "0.5", "1800.0", "+Inf")
    }
    assert buckets == {"0.005": 3_336, "0.25": 3_336, "0.5": 6_668, "1800.0": 6_668, "+Inf": 10_000}
    total = metrics.registry.get_sample_value("homing_job_duration_seconds_sum", labels)
    assert total == pytest.approx(3_336 * 0.005 + 3_332 * 0.3 + 3_332 * 9_999.0)


def test_what_the_client_would_have_observed() -> None:
    """The short way into a histogram leads to what the client's own `observe` does, for every bound and beside it."""
    metrics = Metrics("shop")
    theirs = Histogram("theirs", "The same.", registry=metrics.registry, buckets=JOB_DURATION.buckets)
    for bound in JOB_DURATION.buckets:
        for value in (bound * 0.999, bound, bound * 1.001, -1.0):
            metrics.observe(JOB_DURATION, "mail", "send", seconds=value)
            theirs.observe(value)
    families = {f.name: f for f in metrics.registry.collect()}
    ours = [(s.labels["le"], s.value) for s in families["homing_job_duration_seconds"].samples if "le" in s.labels]
    assert ours == [(s.labels["le"], s.value) for s in families["theirs"].samples if "le" in s.labels]


def test_an_sdk_that_comes_later_gets_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of setting up does not matter: from the next question on, OpenTelemetry hears what Prometheus hears."""
    metrics = Metrics("shop")
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", lambda: provider)
    monkeypatch.setattr("opentelemetry.metrics.get_meter", provider.get_meter)
    metrics.find_mirror()
    metrics.count(JOB_RUNS, "mail", "send", "completed")
    metrics.observe(JOB_DURATION, "mail", "send", seconds=0.3)
    metrics.set(RUNNING, "mail", to=3)
    metrics.collected = lambda: {PAUSED: [(("mail",), 1.0)]}
    data = reader.get_metrics_data()
    assert data is not None
    seen: dict[str, Any] = {m.name: m for m in data.resource_metrics[0].scope_metrics[0].metrics}
    (point,) = seen["homing.job.runs"].data.data_points
    assert point.value == 1
    assert point.attributes == {"app": "shop", "queue": "mail", "job": "send", "outcome": "completed"}
    assert seen["homing.job.duration"].unit == "s"
    (paused,) = seen["homing.queue.paused"].data.data_points
    assert (paused.value, paused.attributes) == (1, {"app": "shop", "queue": "mail"})
    assert seen["homing.worker.running.jobs"].data.data_points[0].value == 3
