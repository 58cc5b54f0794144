"""Messages of the planner, in words of the form."""

from counterpoise.model.request import (
    COMMAND_LINE_OPTIONS,
    FORM_TITLES,
    in_form_words,
    read_rebalance_request,
)


def test_every_field_has_both_names() -> None:
    assert list(COMMAND_LINE_OPTIONS) == list(FORM_TITLES)
    read_rebalance_request(dict.fromkeys(FORM_TITLES) | {"goal": "leaders"})


def test_options_become_titles() -> None:
    message = (
        "goal add-brokers needs the brokers to add; name them, like --brokers 7,8, or leave "
        "--only-brokers and --max-bytes-of-something out"
    )
    assert in_form_words(message) == (
        'goal add-brokers needs the brokers to add; name them in the field "Brokers", like 7,8, or '
        'leave "Only these brokers" and --max-bytes-of-something out'
    )
