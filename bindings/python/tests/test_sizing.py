# SPDX-License-Identifier: Apache-2.0
"""Miss-ratio curves, workloads and sizers through the package."""

import math

import pytest

import kvcache

SECOND = 10**9


def test_a_curve_says_what_other_sizes_would_hit():
    m = kvcache.Manager(64, 4)
    m.open_curve(sample_rate=1.0, max_blocks=100)
    with pytest.raises(kvcache.BusyError, match="a curve already"):
        m.open_curve()
    for _ in range(2):
        with m.allocate(range(17)) as request:
            request.commit(17)
    assert m.hit_rates([0, 2, 4, 100]).tolist() == [0, 0.25, 0.5, 0.5]
    info = m.curve()
    assert (info.sample_rate, info.queries, info.sampled, info.num_samples, info.max_blocks) == (1, 8, 8, 4, 100)
    assert len(m.hit_rates([])) == 0
    for sizes, text in (([5, 4], "ascending"), ([101], "max_blocks")):
        with pytest.raises(kvcache.InvalidArgumentError, match=text):
            m.hit_rates(sizes)
    m.close_curve()
    with pytest.raises(kvcache.NotFoundError, match="open_curve"):
        m.curve()
    with m.namespace(tenant=b"t") as tenant:
        m.open_curve(tenant)
        assert m.curve(tenant).queries == 0
    with pytest.raises(kvcache.UnsupportedError):
        kvcache.Manager(8, prefix_cache=False).open_curve()


def test_a_workload_has_level_trend_and_bursts():
    w = kvcache.Workload(half_life_ns=SECOND, window=4)
    assert w.info.num_observations == 0 and w.predict(SECOND) == 0
    for t in range(1, 9):
        w.record(t * SECOND, 10 + 3 * t)
    info = w.info
    assert info.level == pytest.approx(34) and info.trend == pytest.approx(3) and info.peak == 34 and info.rate == pytest.approx(1)
    assert w.predict(2 * SECOND) == pytest.approx(40)
    for value in (math.nan, math.inf, 1e16):
        with pytest.raises(kvcache.InvalidArgumentError, match="finite"):
            w.record(10 * SECOND, value)
    with pytest.raises(kvcache.InvalidArgumentError, match="later"):
        w.record(8 * SECOND, 1)
    with pytest.raises(kvcache.InvalidArgumentError, match="65536"):
        kvcache.Workload(window=1)


def test_the_modes_of_a_sizer_decide_differently_and_the_log_says_why():
    last = {}
    for mode in ("reactive", "predictive", "hybrid"):
        sizer = kvcache.Sizer(mode, num_blocks=100, max_blocks=10_000, lead_time_ns=30 * SECOND, hysteresis=0.1, log_capacity=3)
        for t, needed in enumerate((100, 120, 140, 160), 1):
            last[mode] = sizer.decide(10 * t * SECOND, needed)
        assert sizer.read_log(3) == last[mode]
        with pytest.raises(kvcache.NotFoundError, match="1 .. 3"):
            sizer.read_log(0)
    assert last["reactive"].basis is kvcache.SizingBasis.LAST and last["reactive"].to_blocks == 160
    assert last["predictive"].basis is kvcache.SizingBasis.FORECAST and last["predictive"].forecast == pytest.approx(220)
    assert last["hybrid"].mode is kvcache.SizingMode.HYBRID and last["hybrid"].basis is kvcache.SizingBasis.FORECAST
    assert last["reactive"].action is kvcache.SizingAction.GROW and last["reactive"].reason is kvcache.SizingReason.NEED
    with pytest.raises(ValueError, match="hybrid"):
        kvcache.Sizer("lazy")
