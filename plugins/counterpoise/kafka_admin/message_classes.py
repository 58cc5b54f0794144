"""Makes the classes of all versions of Kafka's responses, when it is imported.

kafka-python makes the class of a version when it is first needed, and its registry knows the class
that was made last by a weak reference (`ApiMessage.__init_subclass__`, 3.0.12). Where two clients
of a new process make one at the same time, each in its own thread, the one in the registry may be
the one that is not kept: every later response of that kind then raises ReferenceError. An import
runs once, so what it has made is not made again (some 260 classes, 6 ms).
"""

from kafka.protocol.api_header import ResponseClassRegistry

for _response_class in list(ResponseClassRegistry._response_class_registry.values()):
    for _version in range(_response_class.max_version + 1):
        _response_class[_version]
