"""The judgement: evidence and policy in, findings and verdicts out. Pure: same input, same bytes."""
