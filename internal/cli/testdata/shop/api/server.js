// The shop: GET / is the page with twelve products, GET /product/ID is one of them.
'use strict';
const http = require('http');
const { Postgres, Redis } = require('./stores.js');

const db = new Postgres(new URL(process.env.DATABASE_URL));
const cache = new Redis(new URL(process.env.REDIS_URL));

async function page() {
  const first = 1 + Math.floor(Math.random() * 980);
  const products = await db.query(`SELECT id, name, price FROM product WHERE id >= ${first} ORDER BY id LIMIT 12`);
  const visits = await cache.command('INCR', 'visits');
  return { visits, products: products.map(([id, name, price]) => ({ id: Number(id), name, price: Number(price) })) };
}

async function product(id) {
  const key = `product:${id}`;
  const known = await cache.command('GET', key);
  if (known) return JSON.parse(known);
  const [row] = await db.query(`SELECT id, name, price FROM product WHERE id = ${id}`);
  if (!row) return null;
  const found = { id, name: row[1], price: Number(row[2]) };
  await cache.command('SET', key, JSON.stringify(found));
  return found;
}

http.createServer(async (req, res) => {
  const answer = (status, body) => {
    res.writeHead(status, { 'Content-Type': 'application/json' });
    res.end(JSON.stringify(body));
  };
  try {
    const one = /^\/product\/(\d{1,9})$/.exec(req.url);
    if (req.url === '/') return answer(200, await page());
    const found = one && await product(Number(one[1]));
    return found ? answer(200, found) : answer(404, { error: 'there is no such thing here' });
  } catch (e) {
    return answer(500, { error: String(e) });
  }
}).listen(3117, () => console.log('the shop is open'));
