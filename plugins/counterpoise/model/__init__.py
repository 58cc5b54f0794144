"""The ground floor: frozen values that every room speaks in. No I/O, no clock, no other room."""
