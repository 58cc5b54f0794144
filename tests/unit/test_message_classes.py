"""Two threads of a new process may connect at the same time."""

import subprocess
import sys

# One thread has made the class of a version, and keeps it only after another thread has made and
# kept one too: the schedule by which the class that was made last is lost.
BOTH_MAKE_IT = """
import builtins, gc, threading
import counterpoise.kafka_admin.cluster_admin
from kafka.protocol import api_message
from kafka.protocol.metadata import MetadataRequest

is_made, is_kept = threading.Event(), threading.Event()

def make(*arguments, **keywords):
    made = builtins.type(*arguments, **keywords)
    if threading.current_thread() is first:
        is_made.set()
        is_kept.wait(5)
    return made

api_message.type = make
request = MetadataRequest(version=9)
request.with_header(correlation_id=1, client_id="x")
first = threading.Thread(target=request.header.get_response_class)
first.start()
while first.is_alive() and not is_made.wait(0.01):
    pass  # it makes none where all are made
request.header.get_response_class()
is_kept.set()
first.join()
gc.collect()
print(request.header.get_response_class().__name__)
"""


def test_no_thread_loses_the_class_that_another_has_made() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOTH_MAKE_IT], capture_output=True, text=True, check=False
    )
    assert done.stdout == "MetadataResponse_v9\n", done.stderr
