// Package flink holds what Flink runs for a chat of several servers, in Java, below src: it says what
// messages are as package analysis does, bit for bit. There is no Go in it but tests.
package flink
