"""Asks a Prometheus what every panel of the dashboard asks, and of its alerts: panels.py DASHBOARD ADDRESS

Each expression must be one that Prometheus takes, and those on programs must have an answer. Prints how many there were."""

import json
import sys
import urllib.parse
import urllib.request

DASHBOARD, ADDRESS = sys.argv[1:]
# What Grafana would put there.
VARIABLES = {"$instance": ".*", "$program": ".*", "$__rate_interval": "15s"}


def asked(path, **words):
    """What Prometheus' HTTP API answers."""
    query = urllib.parse.urlencode(words)
    with urllib.request.urlopen(f"http://{ADDRESS}/api/v1/{path}?{query}", timeout=10) as answer:
        told = json.load(answer)
    assert told["status"] == "success", told
    return told["data"]


def put(text):
    """With what Grafana would put there."""
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return text


def expressions(dashboard):
    """(title, expression, words of its legend) of all panels."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            text = put(target["expr"])
            legend = target.get("legendFormat", "")
            yield panel["title"], text, [piece.split("}}")[0] for piece in legend.split("{{")[1:]]


def choices(dashboard):
    """(name, what can be chosen) of each variable whose values are asked for."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            series, label = put(variable["definition"]).removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
            yield variable["name"], {found[label] for found in asked("series", **{"match[]": series})}


def main():
    """Each of them once."""
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    told = answered = 0
    for title, text, words in expressions(dashboard):
        result = asked("query", query=text)["result"]
        told += 1
        answered += bool(result)
        # Lost wake-ups, say, are none: but their sum is a number all the same.
        assert result or "dp_family" not in text, f"{title}: no answer to {text}"
        for series in result:
            missing = [word for word in words if word not in series["metric"]]
            assert not missing, f"{title}: the legend names {missing}, and a series has {series['metric']}"
    chosen = dict(choices(dashboard))
    assert chosen["instance"] and {"nginx", "postgres", "redis-server"} <= chosen["program"], chosen
    sent = asked("query", query='sum(rate(dp_family_ring_bytes_total{program="nginx"}[15s]))')["result"]
    assert float(sent[0]["value"][1]) > 0, sent
    rules = [rule for group in asked("rules")["groups"] for rule in group["rules"]]
    unsound = [rule["name"] for rule in rules if rule["health"] != "ok" or rule["state"] == "firing"]
    assert rules and not unsound, unsound
    print(f"{told} expressions of panels, {answered} with an answer, {len(rules)} alerts, none of which is there")


main()
