"""The probes: each runs the subject in one way and writes down what it sees."""
