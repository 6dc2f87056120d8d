"""What op records are written with: the record, what the recorder is told, and the parts that
lowerings share."""
