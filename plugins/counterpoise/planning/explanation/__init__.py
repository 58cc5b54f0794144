"""Telling: what came of a request: moves and why, figures, bounds, warnings, and the reason when
nothing moves.
"""
