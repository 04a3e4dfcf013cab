#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes deploy/grafana/dashboards/*.json. The panels are here; the JSON is what Grafana reads.

  deploy/grafana/make_dashboards.py           writes the files
  deploy/grafana/make_dashboards.py --check   exit status 1 if a file is not what this program writes

In an expression, @ stands for the selectors of the variables `job` and `instance`, and $__rate_interval is Grafana's.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
SELECT = 'job=~"$job",instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
BUSY = [(None, "green"), (0.8, "orange"), (0.95, "red")]      # parts of a limit
ERRORS = [(None, "green"), (0.001, "orange"), (0.01, "red")]  # parts of all requests
NONE_GOOD = [(None, "green"), (1, "red")]
UP_GOOD = [(None, "red"), (1, "green")]


def panel(title, unit, description, *queries, kind="timeseries", steps=None, stack=False, width=8, height=8):
  """A panel of (expression, legend) pairs. `steps`: thresholds, from the lowest value on."""
  queries = [(q, "{{instance}}") if isinstance(q, str) else q for q in queries]
  custom = {"fillOpacity": 30 if stack else 5, "stacking": {"mode": "normal" if stack else "none"}, "showPoints": "never"}
  if steps and kind == "timeseries": custom["thresholdsStyle"] = {"mode": "dashed"}
  defaults = {"unit": unit, "min": 0, "custom": custom if kind == "timeseries" else {}}
  defaults["color"] = {"mode": "thresholds" if steps and kind != "timeseries" else "palette-classic"}
  if steps:
    defaults["thresholds"] = {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}
  targets = [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expr.replace("@", SELECT), "legendFormat": legend,
              "exemplar": "_bucket" in expr, "instant": kind == "table", "format": "table" if kind == "table" else "time_series"}
             for i, (expr, legend) in enumerate(queries)]
  options = {"timeseries": {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
                            "tooltip": {"mode": "multi", "sort": "desc"}},
             "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "textMode": "value_and_name"},
             "bargauge": {"reduceOptions": {"calcs": ["lastNotNull"]}, "orientation": "horizontal", "displayMode": "gradient"},
             "table": {"sortBy": [{"displayName": "Value", "desc": True}]}}[kind]
  return {"title": title, "description": description, "type": kind, "datasource": SOURCE, "targets": targets, "options": options,
          "fieldConfig": {"defaults": defaults, "overrides": []}, "size": (width, height)}


def quantiles(metric, by, legend, more=""):
  """Median and 99th percentile of a histogram."""
  of = f"sum by ({by}le) (rate({metric}_bucket{{{more}@}}[$__rate_interval]))"
  return [(f"histogram_quantile({q}, {of})", f"{legend} {name}".strip()) for q, name in ((0.5, "p50"), (0.99, "p99"))]


def rate(metric, by, more=""):
  return f"sum by ({by}) (rate({metric}{{{more}@}}[$__rate_interval]))"


OVERVIEW = {
  "Health": [
    panel("Daemons", "short", "1 while Prometheus can read the metrics of the daemon.", ("up{@}", "{{instance}}"),
          kind="stat", steps=UP_GOOD, width=6, height=5),
    panel("Devices", "short", "1 while the device can be used. Devices that nobody has asked for yet are not shown.",
          ("uopd_device_ready{@}", "{{instance}} {{device}}"), kind="stat", steps=UP_GOOD, width=6, height=5),
    panel("Version", "short", "The version of each daemon.", ("uopd_build_info{@}", "{{instance}} {{version}}"), kind="stat", width=6, height=5),
    panel("Uptime", "s", "Time since the start of the process.", "time() - uopd_process_start_time_seconds{@}", kind="stat", width=6, height=5),
  ],
  "Requests": [
    panel("Requests", "reqps", "Calls that ended, by method. A message of a Pipeline counts as the call that it stands for.",
          (rate("uopd_rpc_duration_seconds_count", "method"), "{{method}}"), stack=True),
    panel("Errors", "percentunit", "Part of the calls that failed by a fault of the daemon: INTERNAL, UNAVAILABLE, DATA_LOSS, UNKNOWN.",
          "uopd:request_errors:ratio_rate5m{@}", steps=ERRORS),
    panel("Calls by status", "reqps", "Calls that did not end with OK, by status.",
          (f'{rate("uopd_rpc_duration_seconds_count", "code", """code!="OK",""")} or sum(rate(uopd_rpc_duration_seconds_count{{@}}[$__rate_interval])) * 0',
           "{{code}}")),
    panel("Latency of calls", "s", "Time of calls and of messages of pipelines. Points lead to requests: trace_id, or request_id, which is `req` in the log.",
          *quantiles("uopd_rpc_duration_seconds", "", "", 'method!~"Upload|Download|Pipeline|WatchTune|ExportCache|ImportCache",')),
    panel("Phases, 99th percentile", "s", "Time that a request spends in a phase. `queue` is the wait for a thread.",
          ("histogram_quantile(0.99, sum by (phase, le) (rate(uopd_phase_duration_seconds_bucket{@}[$__rate_interval])))", "{{phase}}")),
    panel("Where the time goes", "s", "Seconds per second that all requests together spend in each phase.",
          (rate("uopd_phase_duration_seconds_sum", "phase"), "{{phase}}"), stack=True),
    panel("Calls in flight", "short", "Calls that are being served now, streams among them.", "uopd_rpc_in_flight{@}"),
    panel("Sessions and connections", "short", "Open sessions and gRPC connections.", ("uopd_sessions{@}", "{{instance}} sessions"),
          ("uopd_connections{@}", "{{instance}} connections")),
    panel("Bytes of clients", "Bps", "Bytes of buffers and graphs from and to clients.",
          (rate("uopd_bytes_received_total", "instance"), "{{instance}} received"), (rate("uopd_bytes_sent_total", "instance"), "{{instance}} sent")),
  ],
  "Queues and memory": [
    panel("Tasks that wait", "short", "Tasks without a thread, by pool. A queue that does not empty: the daemon has more work than threads.",
          ("uopd_pool_waiting{@}", "{{instance}} {{pool}}")),
    panel("Busy threads", "percentunit", "Part of the threads of a pool that work.",
          ("uopd_pool_busy{@} / uopd_pool_threads{@}", "{{instance}} {{pool}}"), steps=BUSY),
    panel("Wait for a thread, 99th percentile", "s", "The phase `queue` of requests.", "uopd:queue_wait_seconds:p99_5m{@}",
          steps=[(None, "green"), (1, "red")]),
    panel("Oldest task that waits", "s", "Time for which the task that has waited longest for a thread has waited, by pool.",
          ("uopd_pool_oldest_wait_seconds{@}", "{{instance}} {{pool}}"), steps=[(None, "green"), (60, "red")]),
    panel("Memory for clients", "bytes", "Memory that the daemon holds for clients, and limits.total_bytes.",
          ("sum by (class) (uopd_client_bytes{@})", "{{class}}"), ("sum(uopd_client_bytes_limit{@})", "limit")),
    panel("Memory of devices", "percentunit", "Part of the memory that the daemon may use on a device: in live buffers.",
          ('uopd_device_memory_bytes{state="used",@} / ignoring(state) uopd_device_memory_limit_bytes{@}', "{{instance}} {{device}}"), steps=BUSY),
    panel("Memory refused", "ops", "Refusals of memory for clients, by the limit that was reached.",
          (rate("uopd_memory_refused_total", "limit"), "{{limit}}")),
    panel("Processor time", "percentunit", "Processors that the daemon and its worker processes keep busy.",
          (rate("uopd_process_cpu_seconds_total", "instance"), "{{instance}} daemon"),
          (rate("uopd_workers_cpu_seconds_total", "instance"), "{{instance}} workers")),
    panel("Resident memory", "bytes", "Resident memory of the daemon and of its worker processes. What workers share counts for each.",
          ("uopd_process_resident_memory_bytes{@}", "{{instance}} daemon"), ("uopd_workers_resident_memory_bytes{@}", "{{instance}} {{process}}")),
    panel("Quarantine", "short", "Jobs that killed a worker process and are not run again (uopctl quarantine list).",
          ("uopd_quarantined_jobs{@}", "{{instance}} {{pool}}"), steps=NONE_GOOD),
  ],
}

CACHE = {
  "Programs": [
    panel("Programs of requests", "reqps", "memory: prepared earlier. waited: another request was making it. made: everything below was asked.",
          (rate("uopd_program_lookups_total", "outcome"), "{{outcome}}"), stack=True),
    panel("Graphs scheduled, kernels compiled", "ops", "What no tier of the cache had.",
          (rate("uopd_schedules_total", "instance"), "{{instance}} schedules"), (rate("uopd_kernels_compiled_total", "instance"), "{{instance}} kernels")),
    panel("Waits for another caller", "s", "Single flight: time that a caller waited for what another caller of the same daemon was making.",
          *quantiles("uopd_flight_wait_seconds", "value, ", "{{value}}")),
    panel("Failures remembered", "short", "Failures that would happen again, by kind. Each is forgotten after a while (cache.failure_*_ms), or by "
          "uopctl quarantine clear; uopctl quarantine list shows them.", ("sum by (kind) (uopd_failures_held{@})", "{{kind}}"), stack=True),
    panel("Answers from remembered failures", "ops", "Requests and tunings that failed at once, because the same failed a short time ago.",
          (rate("uopd_failures_remembered_total", "kind"), "{{kind}}"), stack=True),
  ],
  "Tiers": [
    panel("Hits", "percentunit", "Part of the lookups of a store that found the row, in any tier.", ("uopd:cache_hits:ratio_rate5m{@}", "{{instance}} {{store}}")),
    panel("Hits by tier", "ops", "Rows that were found, by the tier that had them.", (rate("uopd_cache_hits_total", "tier"), "{{tier}}"), stack=True),
    panel("Lookups by result", "ops", "corrupt and error are misses that heal themselves.",
          (rate("uopd_cache_requests_total", "store, result"), "{{store}} {{result}}")),
    panel("Bytes by store", "bytes", "Bytes of the rows on disk, and cache.max_bytes. The rows used longest ago go when it is full.",
          ("uopd_cache_bytes{@}", "{{instance}} {{store}}"), ("uopd_cache_max_bytes{@}", "{{instance}} limit")),
    panel("Fill", "percentunit", "Part of cache.max_bytes that is used.", ("sum without (store) (uopd_cache_bytes{@}) / uopd_cache_max_bytes{@}", "{{instance}}"),
          kind="bargauge", steps=BUSY),
    panel("Rows by store", "short", "Rows on disk.", ("uopd_cache_rows{@}", "{{instance}} {{store}}")),
    panel("Puts and evictions", "ops", "Rows that were put, by result, and rows that were removed to make room.",
          (rate("uopd_cache_puts_total", "result"), "put {{result}}"),
          ("sum(rate(uopd_cache_evictions_total{@}[$__rate_interval]))", "evicted")),
    panel("State of the disk", "short", "1 for the state of the cache's file. read_only and memory: nothing new is kept.",
          ("uopd_cache_state{@} == 1", "{{instance}} {{state}}"), kind="stat"),
  ],
  "Leases": [
    panel("Attempts", "ops", "busy: another daemon computes the value.", (rate("uopd_leases_total", "store, outcome"), "{{store}} {{outcome}}")),
    panel("Held and lost", "short", "Leases under which the daemon computes, and leases that it lost in the last 5 minutes.",
          ("uopd_leases_held{@}", "{{instance}} held"), ("increase(uopd_leases_lost_total{@}[5m])", "{{instance}} lost")),
    panel("Waits for another daemon", "s", "Time that a daemon waited for a value that another daemon computed under its lease.",
          *quantiles("uopd_lease_wait_seconds", "store, ", "{{store}}")),
  ],
  "Cluster": [
    panel("Reachable", "short", "1 while the shared server is asked. 0: the daemon goes on alone.",
          ("uopd_cluster_reachable{@} and uopd_cluster_configured{@} == 1", "{{instance}}"), kind="stat", steps=UP_GOOD, width=6),
    panel("Lookups", "ops", "refused: a record that this daemon does not trust or cannot read.",
          (rate("uopd_cluster_lookups_total", "result"), "{{result}}"), stack=True, width=6),
    panel("Time of a lookup", "s", "Ends at cache.cluster_budget_ms.", *quantiles("uopd_cluster_lookup_duration_seconds", "", ""), width=6),
    panel("Records refused", "ops", "foreign, unknown_key, signature, content, checksum, fence and other_key: somebody writes bad records.",
          (rate("uopd_cluster_refused_total", "reason"), "{{reason}}"), width=6),
    panel("Records sent", "ops", "Rows for the shared server, by result.", (rate("uopd_cluster_puts_total", "result"), "{{result}}")),
    panel("Announcements", "ops", "Records that other daemons announced, by what became of them. spared: more than this daemon fetches in advance.",
          (rate("uopd_cluster_announcements_total", "result"), "{{result}}")),
    panel("Queue", "bytes", "Rows that wait to be sent. At 64 MiB rows are dropped.", "uopd_cluster_queue_bytes{@}"),
  ],
}

TUNING = {
  "Queue": [
    panel("Programs in the queue", "short", "Programs that wait for tuning or are being tuned.", "uopd_tune_queue{@}"),
    panel("Kernels", "ops", "Kernels whose tuning ended: tuned here, found (another daemon did it), failed, cancelled, dropped.",
          (rate("uopd_tune_kernels_total", "result"), "{{result}}"), stack=True),
    panel("Time of a kernel", "s", "Time to tune one kernel here.", *quantiles("uopd_tune_duration_seconds", "", "")),
  ],
  "Candidates": [
    panel("Candidates", "ops", "Candidates: measured, failed, remembered from an earlier search; and left out, pruned or duplicate.",
          (rate("uopd_tune_candidates_total", "outcome"), "{{outcome}}"), stack=True),
    panel("Rejected", "short", "Fast candidates that computed something else than the reference, or failed at last. In 15 minutes.",
          "increase(uopd_tune_rejected_total{@}[15m])", steps=NONE_GOOD),
    panel("Stages, median", "s", "Time of one job: compile and measure (a candidate), reference, confirm (one of the fastest).",
          ("histogram_quantile(0.5, sum by (stage, le) (rate(uopd_tune_stage_duration_seconds_bucket{@}[$__rate_interval])))", "{{stage}}")),
    panel("Where the time goes", "s", "Seconds per second in each stage. Compiles run at the same time as each other.",
          (rate("uopd_tune_stage_duration_seconds_sum", "stage"), "{{stage}}"), stack=True),
  ],
  "Operations": [
    panel("Operations that run", "short", "Tuning operations (uopctl tune) of the daemon that are not over.", "uopd_tune_operations_active{@}", width=6),
    panel("Operations that ended", "short", "In 15 minutes, by how. interrupted: the daemon ended again and again during it.",
          ("sum by (state) (increase(uopd_tune_operations_total{@}[15m]))", "{{state}}"), stack=True, width=6),
    panel("Watchers", "short", "Clients that watch tuning operations.", "uopd_tune_watchers{@}", width=6),
    panel("Imported winners", "short", "Results of tuning from bundles that were run against the reference, in 15 minutes. refused: they computed "
          "something else, or did not run.", ("sum by (result) (increase(uopd_imported_winners_total{@}[15m]))", "{{result}}"), stack=True, width=6),
  ],
  "Workers": [
    panel("Jobs", "ops", "Jobs of worker processes that ended, by pool and outcome.", (rate("uopd_worker_jobs_total", "pool, outcome"), "{{pool}} {{outcome}}")),
    panel("Jobs that crash or hang", "percentunit", "Part of the jobs of tuning that killed a worker or exceeded their limit.",
          ("uopd:tuning_jobs_lost:ratio_rate15m{@}", "{{instance}} {{pool}}"), steps=[(None, "green"), (0.1, "red")]),
    panel("Processes", "short", "Worker processes.", ("uopd_workers{@}", "{{instance}} {{pool}} {{state}}"), stack=True),
    panel("Killed, lost, restarted", "short", "In 15 minutes: jobs that killed a worker, workers that something outside ended, restarts of the fork server.",
          ("sum by (pool) (increase(uopd_worker_kills_total{@}[15m]))", "{{pool}} kills"),
          ("sum by (pool) (increase(uopd_worker_losses_total{@}[15m]))", "{{pool}} losses"),
          ("sum(increase(uopd_fork_server_restarts_total{@}[15m]))", "fork server")),
    panel("Quarantine", "short", "Jobs in quarantine.", ("uopd_quarantined_jobs{@}", "{{instance}} {{pool}}"), steps=NONE_GOOD),
    panel("Drafts", "short", "Kernels compiled quickly whose optimised code is still to come (compile.fast_tier).", "uopd_drafts_pending{@}"),
  ],
}

OF_KERNEL = "{{device}} {{kernel}}"
KERNELS = {
  "By name": [
    panel("Top kernels by time", "s", "Measured seconds per second. Kernels that take little time are `other`.",
          (f'topk(10, {rate("uopd_kernel_seconds_total", "device, kernel")})', OF_KERNEL), stack=True, width=12, height=10),
    panel("Top kernels by launches", "ops", "Measured launches. Of programs that replay as graphs, every 64th run is measured.",
          (f'topk(10, {rate("uopd_kernel_launches_total", "device, kernel")})', OF_KERNEL), width=12, height=10),
    panel("Top kernels by bytes", "Bps", "Bytes that the launches read and wrote, as codegen estimates them.",
          (f'topk(10, {rate("uopd_kernel_bytes_total", "device, kernel")})', OF_KERNEL), width=12, height=10),
    panel("Bandwidth of the top kernels", "Bps", "Bytes per second of kernel time. Compare with the memory of the device.",
          (f'topk(10, {rate("uopd_kernel_bytes_total", "device, kernel")} / {rate("uopd_kernel_seconds_total", "device, kernel")})', OF_KERNEL),
          width=12, height=10),
    panel("Time by kernel since the start", "s", "Total measured time.", ("topk(40, sum by (device, kernel) (uopd_kernel_seconds_total{@}))", OF_KERNEL),
          kind="table", width=24, height=10),
  ],
  "Devices": [
    panel("Busy", "percentunit", "Seconds of kernels per second, by device. Above 1: several kernels at the same time.",
          ("uopd:kernel_seconds:rate5m{@}", "{{instance}} {{device}}")),
    panel("Time of a launch", "s", "Measured time of one launch.", *quantiles("uopd_kernel_duration_seconds", "device, ", "{{device}}")),
    panel("Launches", "ops", "Measured launches by device.", (rate("uopd_kernel_duration_seconds_count", "device"), "{{device}}")),
    panel("Memory", "bytes", "used: in live buffers. pooled: freed, and kept for later buffers.",
          ("uopd_device_memory_bytes{@}", "{{instance}} {{device}} {{state}}"), ("uopd_device_memory_limit_bytes{@}", "{{instance}} {{device}} limit")),
    panel("Buffers of clients", "bytes", "Memory in buffers of clients.", ("uopd_buffers_bytes{@}", "{{instance}} {{device}}")),
    panel("Losses", "short", "Devices that were lost with everything on them, by reason, since the start.",
          ("sum by (device, reason) (uopd_device_losses_total{@})", "{{device}} {{reason}}"), steps=NONE_GOOD),
    panel("Kept values", "ops", "Runs that used values of earlier runs, or made them.",
          (rate("uopd_kept_runs_total", "outcome"), "{{outcome}}")),
  ],
}

REWRITES = {
  "Rule sets": [
    panel("Matches", "ops", "Rules that changed a node, by rule set.", (f'topk(15, {rate("uopd_pattern_matches_total", "rule_set")})', "{{rule_set}}"),
          stack=True, width=12),
    panel("Attempts", "ops", "Rules that were tried on a node, by rule set.", (f'topk(15, {rate("uopd_pattern_attempts_total", "rule_set")})', "{{rule_set}}"),
          stack=True, width=12),
    panel("Matches per attempt", "percentunit", "A set that is tried often and matches seldom costs time.",
          (f'bottomk(15, {rate("uopd_pattern_matches_total", "rule_set")} / {rate("uopd_pattern_attempts_total", "rule_set")})', "{{rule_set}}"), width=12),
    panel("Sets since the start", "short", "All matches by rule set.", ("sum by (rule_set) (uopd_pattern_matches_total{@})", "{{rule_set}}"),
          kind="table", width=12),
  ],
  "Rules": [
    panel("Top rules", "ops", "Matches of single rules.", (f'topk(15, {rate("uopd_rule_matches_total", "rule_set, rule")})', "{{rule_set}}.{{rule}}"),
          stack=True, width=12, height=10),
    panel("Rules since the start", "short", "All matches by rule. A rule that is missing has never matched.",
          ("topk(50, sum by (rule_set, rule) (uopd_rule_matches_total{@}))", "{{rule_set}}.{{rule}}"), kind="table", width=12, height=10),
    panel("Attempts of rules", "ops", "Needs TRACK_MATCH_STATS=1 in the environment of the daemon.",
          (f'topk(15, {rate("uopd_rule_attempts_total", "rule_set, rule")})', "{{rule_set}}.{{rule}}"), width=12, height=10),
    panel("Time of rules", "s", "Seconds per second in single rules. Needs TRACK_MATCH_STATS=1 in the environment of the daemon.",
          (f'topk(15, {rate("uopd_rule_seconds_total", "rule_set, rule")})', "{{rule_set}}.{{rule}}"), width=12, height=10),
  ],
}

OBJECTIVE = [(None, "green"), (1, "orange"), (14.4, "red")]  # times the rate at which 30 days use up what the objective allows
WAITS = [(None, "green"), (0.01, "red")]
USERS = {
  "Objectives": [
    panel("Burn of availability", "short", "How fast the errors that an objective of 99.9 % allows are used up: 1 uses them up in 30 days. Over an hour.",
          "uopd:request_errors:ratio_rate1h{@} / 0.001", kind="stat", steps=OBJECTIVE, width=6, height=6),
    panel("Burn of latency", "short", "The same for the objective that 99 % of the requests for programs wait at most 1 s, their time on devices aside.",
          "uopd:request_waits:ratio_rate1h{@} / 0.01", kind="stat", steps=OBJECTIVE, width=6, height=6),
    panel("Errors by method", "percentunit", "Part of the calls of a method that failed by a fault of the daemon, over an hour.",
          ("uopd:method_request_errors:ratio_rate1h{@}", "{{instance}} {{method}}"), steps=ERRORS, width=12, height=6),
    panel("Errors by tenant", "percentunit", "Part of the calls of a tenant that failed by a fault of the daemon, over an hour.",
          ("uopd:tenant_request_errors:ratio_rate1h{@}", "{{instance}} {{tenant}}"), steps=ERRORS, width=6),
    panel("Errors by program", "percentunit", "Part of the requests for a program that failed by a fault of the daemon, over an hour.",
          ("uopd:program_request_errors:ratio_rate1h{@}", "{{instance}} {{program}}"), steps=ERRORS, width=6),
    panel("Waits by tenant", "percentunit", "Part of the requests for programs of a tenant that waited over 1 s, over an hour.",
          ("uopd:tenant_request_waits:ratio_rate1h{@}", "{{instance}} {{tenant}}"), steps=WAITS, width=6),
    panel("Waits by program", "percentunit", "Part of the requests for a program that waited over 1 s, over an hour.",
          ("uopd:program_request_waits:ratio_rate1h{@}", "{{instance}} {{program}}"), steps=WAITS, width=6),
  ],
  "Who and how much": [
    panel("Requests by tenant", "reqps", "Calls that ended. `-` stands for callers without a token.", (rate("uopd_tenant_requests_total", "tenant"), "{{tenant}}"), stack=True),
    panel("Sessions by tenant", "short", "Open sessions.", ("sum by (tenant) (uopd_tenant_sessions{@})", "{{tenant}}"), stack=True),
    panel("Memory by tenant", "bytes", "Memory held by the sessions of a tenant: buffers, answers, kept values.",
          ("sum by (tenant) (uopd_tenant_session_bytes{@})", "{{tenant}}"), stack=True),
    panel("Bytes by tenant", "Bps", "Bytes of buffers and graphs.", (rate("uopd_tenant_bytes_total", "tenant, direction"), "{{tenant}} {{direction}}")),
    panel("Time on devices by tenant", "s", "Seconds per second that requests of a tenant spend on devices.",
          ('sum by (tenant) (uopd:tenant_seconds:rate5m{part="device",@})', "{{tenant}}"), stack=True),
    panel("Top programs", "s", "Seconds per second that requests for a program take, by the first digits of its digest. The rest is `other`.",
          (f'topk(10, {rate("uopd_program_seconds_total", "program")})', "{{program}}"), stack=True),
  ],
  "How fast": [
    panel("Time of requests by tenant", "s", "Prepare, Execute and Run.", *quantiles("uopd_tenant_request_duration_seconds", "tenant, ", "{{tenant}}", 'span="total",')),
    panel("Waits of requests by tenant", "s", "The same without the time on devices: queue, compile, and the daemon's own work.",
          *quantiles("uopd_tenant_request_duration_seconds", "tenant, ", "{{tenant}}", 'span="waited",')),
    panel("Where the time goes", "s", "Seconds per second of all requests, by part. wire: the daemon waits for clients to send or take bytes.",
          ("sum by (part) (uopd:tenant_seconds:rate5m{@})", "{{part}}"), stack=True),
    panel("Where the time of programs goes", "s", "Seconds per second of the requests for each program, by part.",
          (f'topk(15, {rate("uopd_program_seconds_total", "program, part")})', "{{program}} {{part}}"), stack=True, width=16),
    panel("Slow requests", "ops", "Requests over log.slow_ms, by method; the log line `slow request` has each.",
          (f'{rate("uopd_slow_requests_total", "method")} or sum(rate(uopd_rpc_duration_seconds_count{{@}}[$__rate_interval])) * 0', "{{method}}")),
  ],
  "Refused why": [
    panel("Refusals by tenant", "reqps", "Calls that did not end with OK, by tenant and status.",
          (f'{rate("uopd_tenant_requests_total", "tenant, code", """code!="OK",""")} or sum(rate(uopd_tenant_requests_total{{@}}[$__rate_interval])) * 0',
           "{{tenant}} {{code}}"), width=12),
    panel("Memory refused", "ops", "Refusals of memory for clients, by the limit that was reached.", (rate("uopd_memory_refused_total", "limit"), "{{limit}}"), width=12),
  ],
}

SAVINGS = {
  "Compiles": [
    panel("Saved", "s", "Seconds of compiles and searches per second that did not happen, because the result was found: by memory, disk or cluster. "
          "By tuning: seconds of kernels that its opts saved.", (rate("uopd_saved_seconds_total", "by"), "{{by}}"), stack=True, width=12),
    panel("Saved since the start", "s", "The same in total.", ("sum by (by) (uopd_saved_seconds_total{@})", "{{by}}"), kind="bargauge", width=6),
    panel("Spent since the start", "s", "Processor time of the worker processes: compiles and tuning.", "uopd_workers_cpu_seconds_total{@}", kind="bargauge", width=6),
  ],
  "Tuning": [
    panel("Is tuning worth it", "s", "Seconds per second: what tuning saves in kernels, and the processor time of the workers, compiles among it.",
          ('sum(rate(uopd_saved_seconds_total{by="tuning",@}[$__rate_interval]))', "saved"), ("sum(rate(uopd_workers_cpu_seconds_total{@}[$__rate_interval]))", "spent"), width=12),
    panel("Kernels that gained most", "s", "Seconds per second that tuning saves, by kernel.",
          (f'topk(10, {rate("uopd_kernel_saved_seconds_total", "device, kernel")})', OF_KERNEL), stack=True, width=12),
    panel("A launch now", "s", "Mean time of a launch.",
          (f'{rate("uopd_kernel_seconds_total", "device, kernel")} / {rate("uopd_kernel_launches_total", "device, kernel")}', OF_KERNEL), width=12),
    panel("A launch without tuning", "s", "What the same launches would take with the heuristic's opts, as the search measured both.",
          (f'({rate("uopd_kernel_seconds_total", "device, kernel")} + {rate("uopd_kernel_saved_seconds_total", "device, kernel")})'
           f' / {rate("uopd_kernel_launches_total", "device, kernel")}', OF_KERNEL), width=12),
  ],
}

CAPACITY = {
  "Now": [
    panel("Devices busy", "percentunit", "Part of the time in which a device has a run of a client.", (rate("uopd_device_busy_seconds_total", "instance, device"), "{{instance}} {{device}}"),
          kind="bargauge", steps=BUSY),
    panel("Memory that is left", "bytes", "limits.total_bytes without what clients hold: what the next client can have, up to limits.session_bytes.",
          "uopd_client_bytes_limit{@} - ignoring(class) sum without (class) (uopd_client_bytes{@})", kind="bargauge"),
    panel("Wait of the next request", "s", "Median and 99th percentile of the phase `queue`: what the next client would get.",
          *quantiles("uopd_phase_duration_seconds", "", "", 'phase="queue",')),
  ],
  "Over time": [
    panel("Devices busy over time", "percentunit", "Part of the time in which a device has a run of a client.",
          (rate("uopd_device_busy_seconds_total", "instance, device"), "{{instance}} {{device}}"), steps=BUSY),
    panel("Memory for clients", "percentunit", "Part of limits.total_bytes that clients hold.",
          "sum without (class) (uopd_client_bytes{@}) / uopd_client_bytes_limit{@}", steps=BUSY),
    panel("Memory of devices", "percentunit", "Part of the memory that the daemon may use on a device: in live buffers.",
          ('uopd_device_memory_bytes{state="used",@} / ignoring(state) uopd_device_memory_limit_bytes{@}', "{{instance}} {{device}}"), steps=BUSY),
    panel("Threads", "percentunit", "Part of the threads of a pool that work.", ("uopd_pool_busy{@} / uopd_pool_threads{@}", "{{instance}} {{pool}}"), steps=BUSY),
    panel("Tasks that wait", "short", "Tasks without a thread, by pool.", ("uopd_pool_waiting{@}", "{{instance}} {{pool}}")),
    panel("Processors", "short", "Processors that the daemon and its workers keep busy.",
          ("sum by (instance) (rate(uopd_process_cpu_seconds_total{@}[$__rate_interval]) + rate(uopd_workers_cpu_seconds_total{@}[$__rate_interval]))", "{{instance}}")),
  ],
}

DASHBOARDS = {"users": ("uopd: users", USERS), "savings": ("uopd: savings", SAVINGS), "capacity": ("uopd: capacity", CAPACITY),
              "overview": ("uopd", OVERVIEW), "cache": ("uopd: cache", CACHE), "tuning": ("uopd: tuning", TUNING),
              "kernels": ("uopd: kernels", KERNELS), "rewrites": ("uopd: rewrite rules", REWRITES)}


def variable(name, query):
  return {"name": name, "label": name, "type": "query", "datasource": SOURCE, "query": query, "definition": query, "refresh": 2,
          "multi": True, "includeAll": True, "allValue": ".*", "sort": 1, "current": {"text": "All", "value": "$__all"}}


def dashboard(name):
  """A dashboard as Grafana stores it: the panels of each row from left to right."""
  title, rows = DASHBOARDS[name]
  panels, y = [], 0

  def place(one, x, y, width, height):
    panels.append({"id": len(panels) + 1, **one, "gridPos": {"x": x, "y": y, "w": width, "h": height}})

  for row, members in rows.items():
    place({"type": "row", "title": row, "collapsed": False, "panels": []}, 0, y, 24, 1)
    x, y, bottom = 0, y + 1, y + 1
    for one in members:
      width, height = one["size"]
      if x + width > 24: x, y = 0, bottom
      place({key: value for key, value in one.items() if key != "size"}, x, y, width, height)
      x, bottom = x + width, max(bottom, y + height)
    y = bottom
  return {"uid": f"uopd-{name}", "title": title, "tags": ["uopd"], "schemaVersion": 38, "version": 1, "editable": True, "refresh": "30s",
          "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "panels": panels,
          "links": [{"title": "uopd", "type": "dashboards", "tags": ["uopd"], "asDropdown": True, "includeVars": True, "keepTime": True}],
          "templating": {"list": [
            {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus", "current": {}},
            variable("job", "label_values(uopd_build_info, job)"),
            variable("instance", 'label_values(uopd_build_info{job=~"$job"}, instance)')]}}


def main():
  stale = []
  FOLDER.mkdir(exist_ok=True)
  for name in DASHBOARDS:
    path, text = FOLDER / f"{name}.json", json.dumps(dashboard(name), indent=1) + "\n"
    if "--check" in sys.argv:
      if not path.exists() or path.read_text() != text: stale.append(str(path))
    else: path.write_text(text)
  stale += [str(path) for path in FOLDER.glob("*.json") if path.stem not in DASHBOARDS]
  for path in stale: print(f"{path} is not what deploy/grafana/make_dashboards.py writes")
  return 1 if stale else 0


if __name__ == "__main__": sys.exit(main())
