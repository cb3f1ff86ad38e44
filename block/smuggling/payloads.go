// Package smuggling has requests that two servers in a row may read differently, so that one
// takes for a body what the other takes for a further request; and an upstream that judges
// what a server in between makes of them. It is for tests only.
//
// A test starts an Upstream with Listen, the server in between before it, sends Payloads to
// that with Send, stops it, and lets the upstream Check what it got.
package smuggling

import (
	"fmt"
	"strings"
)

// encodings are ways to write "chunked" that one server may take for it and another not.
func encodings() []string {
	all := []string{
		"Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding:\r\n\tchunked",
		"Transfer-Encoding\r\n: chunked", "X: x\nTransfer-Encoding: chunked", "X: x\rTransfer-Encoding: chunked", "X: x\r\rTransfer-Encoding: chunked",
		"Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding", "Transfer-Encoding: chunked\r\nConnection: close, Content-Length",
		"Foo: bar\r\n Transfer-Encoding: chunked", "Trailer: Content-Length\r\nTE: trailers\r\nTransfer-Encoding: chunked",
	}
	for _, name := range []string{
		"Transfer-Encoding", "transfer-encoding", "TRANSFER-ENCODING", "Transfer-Encoding ", " Transfer-Encoding", "\tTransfer-Encoding", "Transfer-Encoding\t",
		"Transfer_Encoding", "Transfer Encoding", "Transfer-Encoding\x00", "\x00Transfer-Encoding", "Transfer-\x0bEncoding", "Transfer-Encoding\xa0", "Transfer-Encodıng",
		"\"Transfer-Encoding\"", "X-Transfer-Encoding", "Transfer--Encoding", "Transfer-Encoding;", "Transfer-Encoding\r", "\x7fTransfer-Encoding",
	} {
		for _, value := range []string{"chunked", "Chunked", "xchunked", "chunked;x=1", "identity, chunked", "\x0bchunked"} {
			all = append(all, name+": "+value)
		}
	}
	return append(all,
		"Transfer-Encoding:chunked", "Transfer-Encoding: \tchunked\t", "Transfer-Encoding: chunked\x00", "Transfer-Encoding: chun\x00ked", "Transfer-Encoding: \"chunked\"",
		"Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding:", "Transfer-Encoding: ,chunked", "Transfer-Encoding: 'chunked'", "Transfer-Encoding: chunked\xa0",
	)
}

// lengths are ways to write a length that two servers may read differently. %d is the true one.
var lengths = []string{
	"Content-Length: %d", "Content-Length: 0\r\nContent-Length: %d", "Content-Length: %d\r\nContent-Length: 0", "Content-Length: %[1]d\r\nContent-Length: %[1]d",
	"Content-Length: %[1]d, %[1]d", "Content-Length: 0, %d", "Content-Length: +%d", "Content-Length: -%d", "Content-Length: 0x%x", "Content-Length: 0%d", "Content-Length: %d.0",
	"Content-Length: %de0", "Content-Length : %d", "Content-Length\t: %d", " Content-Length: %d", "Content_Length: %d", "Content-Length:\r\n %d", "Content-Length: %d\x00", "Content-Length: %d\xa0",
	"Content-Length: \"%d\"", "Content-Length: 18446744073709551616%d", "Content-Length: 0\nX: %d", "X: %d\nContent-Length: 0", "Content-Length: ", "Content-Length: %d 0",
}

// Payloads are requests with lengths and encodings that are ambiguous, and a body in which
// there is a further request. Write is what most of them ask, METHOD PATH; some ask the others.
func Payloads(write string, others ...string) []string {
	const body = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	length := fmt.Sprintf("Content-Length: %d", len(body))
	var all []string
	for _, encoding := range encodings() {
		for _, headers := range []string{encoding + "\r\n" + length, length + "\r\n" + encoding} {
			all = append(all, write+" HTTP/1.1\r\nHost: x\r\n"+headers+"\r\n\r\n"+body)
		}
		all = append(all, write+" HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n"+encoding+"\r\n"+length+"\r\n\r\n"+body)
	}
	for _, l := range lengths {
		text := l
		if strings.Contains(l, "%") {
			text = fmt.Sprintf(l, len(body))
		}
		for _, asked := range append([]string{write}, others...) {
			all = append(all, asked+" HTTP/1.1\r\nHost: x\r\n"+text+"\r\n\r\n"+body)
		}
	}
	return all
}
