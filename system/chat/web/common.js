"use strict";
// What comes from others is only ever made text, never markup.
const $ = (id) => document.getElementById(id);
const shown = 500; // messages that the page keeps
const stream = new URLSearchParams(location.search).get("stream");

function element(name, text, className) {
  const e = document.createElement(name);
  e.textContent = text;
  if (className) e.className = className;
  return e;
}

async function ask(path, options) {
  const answer = await fetch(path, options);
  const body = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.error.message), { status: answer.status });
  return body;
}

const say = (text) => { $("state").textContent = text; };
const complain = (err) => say(err.message);

function add(item) {
  const box = $("messages");
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  box.append(item);
  while (box.childElementCount > shown) box.firstElementChild.remove();
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function message(name, text, className) {
  const item = element("li", "", className);
  const who = element("b", name);
  const what = element("span", text);
  what.dir = "auto";
  item.append(who, what);
  return item;
}
