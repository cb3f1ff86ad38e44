// Package spark holds what Spark runs for a chat of several servers, in Python: what stands for many
// messages, as package analysis says it, to the line. job.py reads
// requests from Kafka and writes the answers. There is no Go in it but tests.
package spark
