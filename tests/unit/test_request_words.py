"""Messages of the planner, in words of the form."""

from counterpoise.model.request import (
    COMMAND_LINE_OPTIONS,
    FORM_TITLES,
    in_form_words,
    read_rebalance_request,
)


def test_every_field_has_an_option_and_those_of_the_forms_a_title() -> None:
    read_rebalance_request(dict.fromkeys(COMMAND_LINE_OPTIONS) | {"goal": "leaders"})
    assert FORM_TITLES.keys() < COMMAND_LINE_OPTIONS.keys()


def test_options_become_titles_or_names_of_fields_that_no_form_has() -> None:
    message = (
        "goal add-brokers needs the brokers to add; name them, like --brokers 7,8, or leave "
        "--only-brokers and --max-bytes-of-something out"
    )
    assert in_form_words(message) == (
        'goal add-brokers needs the brokers to add; name them in the field "Brokers", like 7,8, or '
        'leave "only_broker_ids" and --max-bytes-of-something out'
    )


def test_a_command_stays_as_it_has_to_be_typed() -> None:
    message = "name --brokers, or `counterpoise release demo --brokers 4 --why TEXT` first"
    assert in_form_words(message) == message.replace("--brokers", '"Brokers"', 1)
