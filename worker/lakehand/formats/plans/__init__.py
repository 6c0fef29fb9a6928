"""What table services plan and report: the Avro documents of the timeline, as typed values."""
