package browsertest

// Layout lists, as an expression for Tab.Eval, what is wrong with the page that is seen: what
// sticks out of the screen or cannot be hit with a finger (WCAG 2.2 asks for less), has too
// little contrast (1.4.3) or small letters, fields without a label, ids that come twice, and
// headings that leave one out. What has the class card is taken for styled, with a border
// of a pixel.
const Layout = `(() => {
	const wrong = [], wide = document.documentElement.clientWidth;
	const light = c => { const p = c.match(/[\d.]+/g).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2]; };
	if (document.documentElement.scrollWidth > wide) wrong.push("scrolls sideways: " + document.documentElement.scrollWidth);
	const card = document.querySelector(".card");
	if (card && getComputedStyle(card).borderTopWidth != "1px") wrong.push("has no style");
	if (document.querySelectorAll("h1").length != 1) wrong.push("not one h1");
	let level = 1;
	for (const e of document.querySelectorAll("h1,h2,h3,h4")) {
		if (+e.tagName[1] > level + 1) wrong.push("no heading between h" + level + " and " + e.textContent);
		level = +e.tagName[1];
	}
	for (const e of document.body.querySelectorAll("*")) {
		if (!e.checkVisibility()) continue;
		const box = e.getBoundingClientRect(), style = getComputedStyle(e);
		if (box.right > wide + 0.5 || box.left < -0.5) wrong.push(e.tagName + " sticks out to " + box.right);
		let behind = e;
		while (behind && getComputedStyle(behind).backgroundColor == "rgba(0, 0, 0, 0)") behind = behind.parentElement;
		const [a, b] = [light(style.color), light(behind ? getComputedStyle(behind).backgroundColor : "rgb(255, 255, 255)")].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) wrong.push(e.tagName + " has contrast " + ((a + 0.05) / (b + 0.05)).toFixed(2));
		if (parseFloat(style.fontSize) < 14) wrong.push(e.tagName + " has letters of " + style.fontSize);
		const field = /^(INPUT|TEXTAREA|SELECT)$/.test(e.tagName);
		if ((field || /^(A|BUTTON|SUMMARY)$/.test(e.tagName)) && box.height < 44) wrong.push(e.tagName + " is too small to be hit: " + box.height);
		if (field && !e.labels.length) wrong.push(e.name + " has no label");
		if (e.id && document.querySelectorAll("#" + CSS.escape(e.id)).length != 1) wrong.push("the id " + e.id + " is not one");
	}
	return wrong;
})()`
