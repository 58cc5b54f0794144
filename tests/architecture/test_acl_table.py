"""The permissions in docs/security.md are those that the matrix takes away one at a time."""

from counterpoise.model.acl import CHANGES, OPERATOR_ACLS, READER_ACLS, READS
from tests.support.acl_rows import DOCUMENT, ROWS, table


def test_the_table_in_the_docs_is_the_one_of_the_tests() -> None:
    text = "python -m tests.support.acl_rows --write makes it anew"
    assert table() in DOCUMENT.read_text(), text


def test_every_permission_that_is_granted_is_tried_and_asked_for() -> None:
    for who, acls, operations in (("reader", READER_ACLS, READS), ("operator", OPERATOR_ACLS, {})):
        assert [row.acl for row in ROWS if row.who == who] == list(acls)
        assert set(operations.values()) <= set(acls)
    assert set(CHANGES.values()) <= set(OPERATOR_ACLS)
