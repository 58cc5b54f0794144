"""Explanation: moves with reasons, figures, bounds, warnings, and why an empty plan is empty."""
