"""What `--help` shows for each command: lines that may be typed as they stand."""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "snapshot": (
        "counterpoise snapshot --bootstrap kafka-1:9092,kafka-2:9092 --out cluster.json.gz",
        "counterpoise snapshot --cluster orders-eu",
    ),
    "plan": (
        "counterpoise plan --cluster orders-eu --goal add-brokers --brokers 7,8 --out plan.json",
        "counterpoise plan --state cluster.json.gz --goal leaders --out plan.json",
        "counterpoise plan --cluster orders-eu --goal rebalance --max-bytes 500GB --out plan.json",
    ),
    "show": (
        "counterpoise show plan.json --rate 50MB/s",
        "counterpoise show plan.json --json | jq .copied_bytes",
    ),
    "export": (
        "counterpoise export plan.json --out reassignment.json",
        "counterpoise export plan.json --undo",
    ),
    "import": (
        "counterpoise import reassignment.json --cluster orders-eu --out plan.json",
        "counterpoise import reassignment.json --state cluster.json.gz --out plan.json",
    ),
    "preflight": ("counterpoise preflight plan.json",),
    "propose": ("counterpoise propose plan.json",),
    "approve": ('counterpoise approve plan.json --rate 50MB/s --reason "brokers 7 and 8 joined"',),
    "reject": ('counterpoise reject plan.json --reason "too much at once"',),
    "execute": (
        "counterpoise execute plan.json",
        "counterpoise execute plan.json --json >outcome.json",
    ),
    "verify": ("counterpoise verify plan.json",),
    "status": (
        "counterpoise status",
        "counterpoise status --follow",
        "counterpoise status plan.json --json",
    ),
    "pause": ('counterpoise pause plan.json --why "load test"',),
    "resume": ('counterpoise resume plan.json --why "load test is over"',),
    "cancel": (
        'counterpoise cancel plan.json --why "wrong broker"',
        'counterpoise cancel plan.json --redirected --why "nobody wants that"',
    ),
    "rate": ('counterpoise rate plan.json 30MB/s --why "night"',),
    "freeze": ('counterpoise freeze orders-eu --until 8h --why "release"',),
    "unfreeze": ('counterpoise unfreeze orders-eu --why "release is done"',),
    "release": ('counterpoise release orders-eu --brokers 7 --why "it has its new disks"',),
    "undo": ('counterpoise undo plan.json --out undo.json --why "broker 7 is too slow"',),
    "settle": ("counterpoise settle plan.json",),
    "stop": (
        "counterpoise stop --from-plan plan.json --bootstrap kafka-1:9092",
        "counterpoise stop --from-plan plan.json --cluster orders-eu",
    ),
    "watch": ("counterpoise watch --all --quiet", "counterpoise watch --cluster orders-eu --json"),
    "report": (
        "counterpoise report --cluster orders-eu --last 14d",
        "counterpoise report --fleet --json >fleet.json",
    ),
    "doctor": (
        "counterpoise doctor --bootstrap kafka-1:9092,kafka-2:9092",
        "counterpoise doctor --cluster orders-eu --topic orders",
    ),
    "audit": (
        "counterpoise audit --cluster orders-eu --fail-at warning",
        "counterpoise audit --bootstrap kafka-1:9092 --out audit",
        "counterpoise audit --cluster orders-eu --baseline audit/audit.json --fail-on new",
        "counterpoise audit --cluster orders-eu --rule 'quorum-*' --format junit",
    ),
    "init": ("counterpoise init /opt/counterpoise",),
    "self-check": ("counterpoise self-check", "counterpoise self-check --json --timeout 30s"),
    "notify": ("counterpoise notify --test", "counterpoise notify --test --cluster orders-eu"),
    "completion": (
        "counterpoise completion bash >/etc/bash_completion.d/counterpoise",
        "counterpoise completion zsh >~/.zsh/completions/_counterpoise",
        "counterpoise completion fish >~/.config/fish/completions/counterpoise.fish",
    ),
    "ledger migrate": ("counterpoise ledger migrate",),
    "ledger prune": ("counterpoise ledger prune --cluster orders-eu --before 2026-01-31T00:00",),
}
