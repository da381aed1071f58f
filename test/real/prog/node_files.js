// SPDX-License-Identifier: BSD-2-Clause
// node_files.js server PORT DIRECTORY | client PORT (real_node.py). The server ends each
// connection after 500 messages, with bytes unread. Then it writes a file, which gets the
// descriptor number that the connection had; the file must contain what was written.
const net = require('net'), fs = require('fs');
const [role, port, directory] = process.argv.slice(2);
const MESSAGES = 500, CONNECTIONS = 5, SECRET = 'the server\'s own record\n'.repeat(100);
let done = 0, bad = 0;

function record(connection) {
	const path = `${directory}/record${done}`;
	fs.writeFileSync(path, SECRET);
	if (fs.readFileSync(path, 'latin1') !== SECRET || fs.statSync(path).size !== SECRET.length)
		bad++;
	if (++done === CONNECTIONS)
		process.exit(bad ? 1 : 0);
}

function serve(connection) {
	connection.on('error', () => {});
	connection.on('data', (data) => {
		if (data.includes('bye')) {
			connection.destroy();
			setImmediate(record);
		} else {
			connection.write('y'.repeat(64));
		}
	});
}

function connect(left) {
	const connection = net.connect(+port, '127.0.0.1');
	let messages = 0;

	connection.on('error', () => {});
	connection.on('connect', () => connection.write('x'.repeat(64)));
	connection.on('data', (data) => {
		if (messages >= MESSAGES || data.toString().replace(/y/g, '') !== '')
			process.exit(1);
		connection.write(++messages < MESSAGES ? 'x'.repeat(64) : 'bye' + 'z'.repeat(500));
	});
	connection.on('close', () => (left > 1 ? connect(left - 1) : process.exit(0)));
}

if (role === 'server')
	net.createServer(serve).listen(+port, '127.0.0.1');
else
	connect(CONNECTIONS);
