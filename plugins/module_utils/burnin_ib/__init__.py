"""IPoIB interfaces from one description: asking -> choosing -> rendering -> planning are pure; reading and making touch the node."""
