"""Recorded trajectories, read as events: one file for each format."""
