// As much of the protocols of PostgreSQL and Redis as a small shop needs, so that it has no
// packages to install. Each is one connection, on which answers come in the order of the
// questions.
'use strict';
const net = require('net');

class Connection {
  constructor(url, hello) {
    this.waiting = [];
    this.rest = Buffer.alloc(0);
    this.socket = net.connect(Number(url.port), url.hostname, () => this.socket.write(hello));
    this.socket.setNoDelay(true);
    this.socket.on('data', (data) => this.read(Buffer.concat([this.rest, data])));
    this.socket.on('error', (e) => { console.error(`${url.host}: ${e.message}`); process.exit(1); });
  }

  ask(bytes) {
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.socket.write(bytes);
    });
  }
}

class Postgres extends Connection {
  constructor(url) {
    const body = Buffer.from(`\0\x03\0\0user\0${url.username}\0database\0${url.pathname.slice(1)}\0\0`, 'latin1');
    const length = Buffer.alloc(4);
    length.writeInt32BE(body.length + 4);
    super(url, Buffer.concat([length, body]));
    this.rows = [];
    this.error = null;
    this.ready = false;
  }

  query(sql) {
    const body = Buffer.from(`${sql}\0`);
    const head = Buffer.from('Q\0\0\0\0');
    head.writeInt32BE(body.length + 4, 1);
    return this.ask(Buffer.concat([head, body]));
  }

  read(data) {
    let at = 0;
    while (data.length - at >= 5) {
      const length = data.readInt32BE(at + 1);
      if (data.length - at < length + 1) break;
      this.message(String.fromCharCode(data[at]), data.subarray(at + 5, at + 1 + length));
      at += length + 1;
    }
    this.rest = data.subarray(at);
  }

  message(kind, body) {
    if (kind === 'E') this.error = new Error(body.toString().replace(/\0/g, ' '));
    if (kind === 'D') this.rows.push(this.row(body));
    if (kind !== 'Z') return;
    if (!this.ready) { this.ready = true; return; } // of the start
    const { resolve, reject } = this.waiting.shift();
    if (this.error) reject(this.error); else resolve(this.rows);
    this.rows = [];
    this.error = null;
  }

  row(body) {
    const fields = [];
    let at = 2;
    for (let n = body.readInt16BE(0); n > 0; n--) {
      const length = body.readInt32BE(at);
      fields.push(length < 0 ? null : body.toString('utf8', at + 4, at + 4 + length));
      at += 4 + Math.max(length, 0);
    }
    return fields;
  }
}

class Redis extends Connection {
  constructor(url) { super(url, ''); }

  command(...words) {
    return this.ask(`*${words.length}\r\n${words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join('')}`);
  }

  read(data) {
    for (;;) {
      const end = data.indexOf('\r\n');
      if (end < 0) break;
      const line = data.toString('utf8', 1, end);
      let next = end + 2;
      let value = line;
      if (data[0] === 0x24) { // $LENGTH, and a text of that length
        const length = Number(line);
        if (length >= 0 && data.length < next + length + 2) break;
        value = length < 0 ? null : data.toString('utf8', next, next + length);
        if (length >= 0) next += length + 2;
      }
      const { resolve, reject } = this.waiting.shift();
      if (data[0] === 0x2d) reject(new Error(line)); else resolve(value);
      data = data.subarray(next);
    }
    this.rest = data;
  }
}

module.exports = { Postgres, Redis };
