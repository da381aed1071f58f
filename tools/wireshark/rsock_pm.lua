-- SPDX-License-Identifier: BSD-2-Clause
--
-- rsock_pm.lua - dissector of the port mapper's protocol for Wireshark and tshark (4.0 and later).
--
-- PMReq, PMAccept, PMAck and PMDeny have one layout (include/rsock/pm_wire.h), which is iwpmd's:
-- UDP port 3935, sdp-portmapper. The dissector reports as an error what the codec
-- (mapper/wire/pm_msg.c) rejects, and as a note what the codec ignores. Only messages without an
-- error are matched with each other.
--
--   tshark -X lua_script:rsock_pm.lua -r capture.pcap -Y 'rsockpm.op == 3'
--   ln -s /usr/share/rsock/rsock_pm.lua ~/.local/lib/wireshark/plugins/   for every start
--   tshark -o rsockpm.ports:3935,13935 ...                                          other ports

local REQ, ACCEPT, ACK, DENY = 0, 1, 2, 3
local OP_NAME = { [REQ] = "PMReq", [ACCEPT] = "PMAccept", [ACK] = "PMAck", [DENY] = "PMDeny" }
local IPV_NAME = { [4] = "IPv4", [6] = "IPv6" }
local SHORT_BYTES, LONG_BYTES = 48, 64
local NO_IP = string.rep("\0", 16)

local pm = Proto("rsockpm", "rsock port mapper")

pm.prefs.ports = Pref.range("UDP ports", "3935", "Ports that port mappers listen on", 65535)

local f = {
	version = ProtoField.uint8("rsockpm.version", "Version", base.DEC, nil, 0xc0),
	op = ProtoField.uint8("rsockpm.op", "OP", base.DEC, OP_NAME, 0x30),
	ipv = ProtoField.uint8("rsockpm.ipv", "IPV", base.DEC, IPV_NAME, 0x0f),
	pm_time = ProtoField.uint8("rsockpm.pm_time", "PmTime (s)", base.DEC, nil, 0,
		"Seconds the mapping stays valid, from the response; 0: this transaction only"),
	reserved = ProtoField.uint16("rsockpm.reserved", "Reserved", base.HEX),
	mapped_cp_port = ProtoField.uint16("rsockpm.mapped_cp_port", "Mapped CpPort"),
	ap_port = ProtoField.uint16("rsockpm.ap_port", "ApPort", base.DEC, nil, 0,
		"Service port in PMReq and PMDeny, RDMA listen port in PMAccept and PMAck"),
	cp_port = ProtoField.uint16("rsockpm.cp_port", "CpPort", base.DEC, nil, 0,
		"0: a service mapping is requested; else the port of one TCP connection"),
	assoc_handle = ProtoField.uint64("rsockpm.assoc_handle", "AssocHandle", base.HEX),
	cp_ip = ProtoField.ipv4("rsockpm.cp_ip", "CpIPaddr"),
	cp_ip6 = ProtoField.ipv6("rsockpm.cp_ip6", "CpIPaddr"),
	ap_ip = ProtoField.ipv4("rsockpm.ap_ip", "ApIPaddr"),
	ap_ip6 = ProtoField.ipv6("rsockpm.ap_ip6", "ApIPaddr"),
	mapped_cp_ip = ProtoField.ipv4("rsockpm.mapped_cp_ip", "Mapped CpIPaddr"),
	mapped_cp_ip6 = ProtoField.ipv6("rsockpm.mapped_cp_ip6", "Mapped CpIPaddr"),
	unknown_ip = ProtoField.bytes("rsockpm.unknown_ip", "Address of an unknown family"),
	spare = ProtoField.bytes("rsockpm.spare", "Spare bytes"),
	undecoded = ProtoField.bytes("rsockpm.undecoded", "Not decoded"),
	upgrade = ProtoField.bool("rsockpm.upgrade", "Connection upgrade", base.NONE, nil, 0,
		"Of one TCP connection; else a service mapping"),
	response_in = ProtoField.framenum("rsockpm.response_in", "Answered in", base.NONE,
		frametype.RESPONSE),
	response_to = ProtoField.framenum("rsockpm.response_to", "Answer to", base.NONE,
		frametype.REQUEST),
	time = ProtoField.relative_time("rsockpm.time", "Response time", "From the first PMReq"),
	ack_in = ProtoField.framenum("rsockpm.ack_in", "Acknowledged in", base.NONE, frametype.ACK),
	ack_to = ProtoField.framenum("rsockpm.ack_to", "Acknowledges", base.NONE, frametype.ACK),
	ack_time = ProtoField.relative_time("rsockpm.ack_time", "Acknowledgement time",
		"From the first PMAccept"),
	duplicate_of = ProtoField.framenum("rsockpm.duplicate_of", "Sent before in", base.NONE,
		frametype.RETRANS_PREV),
}
for _, field in pairs(f) do
	table.insert(pm.fields, field)
end

local function expert_of(name, text, group, severity)
	return ProtoExpert.new("rsockpm.expert." .. name, text, expert.group[group],
		expert.severity[severity])
end

local e = {
	length = expert_of("length", "Neither 48 bytes nor 64 and more", "MALFORMED", "ERROR"),
	version = expert_of("version", "Unknown version", "MALFORMED", "ERROR"),
	ipv = expert_of("ipv", "IPV is neither 4 nor 6", "MALFORMED", "ERROR"),
	assoc_handle = expert_of("assoc_handle", "AssocHandle is 0", "MALFORMED", "ERROR"),
	ap_port = expert_of("ap_port", "ApPort is 0", "MALFORMED", "ERROR"),
	ap_ip = expert_of("ap_ip", "PMAccept without an address", "MALFORMED", "ERROR"),
	ignored = expert_of("ignored", "Not zero, and ignored", "PROTOCOL", "NOTE"),
	unmapped = expert_of("unmapped", "64 bytes, and no mapped CpIPaddr", "PROTOCOL", "NOTE"),
	deny = expert_of("deny", "Not mapped: the connection stays on TCP",
		"RESPONSE_CODE", "NOTE"),
	duplicate = expert_of("duplicate", "Sent before", "SEQUENCE", "NOTE"),
	changed = expert_of("changed", "Sent before with different content", "SEQUENCE", "WARN"),
	second_answer = expert_of("second_answer",
		"Another answer came before: this one is ignored", "SEQUENCE", "WARN"),
	unasked = expert_of("unasked", "Matches nothing that was captured before",
		"SEQUENCE", "NOTE"),
	ack_differs = expert_of("ack_differs", "Does not repeat what the PMAccept says",
		"SEQUENCE", "WARN"),
}
for _, item in pairs(e) do
	table.insert(pm.experts, item)
end

-- ---- transactions: identified by (AssocHandle, CpIPaddr, CpPort), as in rsk_pm_msg_answers() ----

local transactions -- by identity: op -> the first message of that kind
local frames -- by frame number: the result of track()

function pm.init()
	transactions = {}
	frames = {}
end

local function same_place(a, b)
	return a.ap_port == b.ap_port and a.ap_ip == b.ap_ip
end

-- Relates a message to the earlier ones of its transaction. Called once for each frame, in order.
local function track(msg)
	local key = string.format("%d/%d/%s/%s", msg.ipv, msg.cp_port, msg.assoc_handle, msg.cp_ip)
	local t = transactions[key]
	local seen = { transaction = t }

	if not t then
		t = {}
		transactions[key] = t
		seen.transaction = t
	end
	local first = t[msg.op]
	if first then
		seen.duplicate_of = first.number
		seen.changed = first.body ~= msg.body
	else
		t[msg.op] = msg
		if msg.op == ACCEPT or msg.op == DENY then
			seen.unasked = not t[REQ]
			seen.second_answer = t.answer ~= nil
			t.answer = t.answer or msg
		elseif msg.op == ACK then
			seen.unasked = not t[ACCEPT]
		end
	end
	seen.ack_differs = msg.op == ACK and t[ACCEPT] and not same_place(msg, t[ACCEPT])
	return seen
end

local function add_link(tree, field, msg)
	if msg then
		tree:add(field, msg.number):set_generated()
	end
end

local function add_time(tree, field, from, to)
	-- Lua gets the times as doubles, in seconds.
	local ns = math.floor((to.time - from.time) * 1e9 + 0.5)

	tree:add(field, NSTime.new(math.floor(ns / 1e9), ns % 1e9)):set_generated()
end

local function add_transaction(tree, msg, seen)
	local t = seen.transaction

	if seen.duplicate_of then
		tree:add(f.duplicate_of, seen.duplicate_of):set_generated()
		tree:add_proto_expert_info(seen.changed and e.changed or e.duplicate)
	end
	if msg.op == REQ then
		add_link(tree, f.response_in, t.answer)
	elseif msg.op == ACCEPT or msg.op == DENY then
		add_link(tree, f.response_to, t[REQ])
		if t[REQ] then
			add_time(tree, f.time, t[REQ], msg)
		end
		if msg.op == ACCEPT then
			add_link(tree, f.ack_in, t[ACK])
		end
	elseif t[ACCEPT] then
		add_link(tree, f.ack_to, t[ACCEPT])
		add_time(tree, f.ack_time, t[ACCEPT], msg)
	end
	for _, name in ipairs({ "second_answer", "unasked", "ack_differs" }) do
		if seen[name] then
			tree:add_proto_expert_info(e[name])
		end
	end
end

-- ---- one message ----

-- An IPv4 address is the first 4 of the 16 bytes; the rest is spare. Returns the address as a
-- string of bytes.
local function add_address(tree, tvb, offset, ipv, field4, field6)
	local raw = tvb:raw(offset, 16)

	if ipv == 6 then
		tree:add(field6, tvb(offset, 16))
	elseif ipv ~= 4 then
		tree:add(f.unknown_ip, tvb(offset, 16))
	else
		tree:add(field4, tvb(offset, 4))
		if raw:sub(5) ~= NO_IP:sub(5) then
			tree:add(f.spare, tvb(offset + 4, 12)):add_proto_expert_info(e.ignored)
		end
		raw = raw:sub(1, 4) .. NO_IP:sub(5)
	end
	return raw
end

local function add_magic(tree, tvb)
	local magic = tvb(0, 1):uint()
	local msg = {
		op = bit32.extract(magic, 4, 2), ipv = bit32.extract(magic, 0, 4), bad = false,
	}
	local version_item = tree:add(f.version, tvb(0, 1))
	tree:add(f.op, tvb(0, 1))
	local ipv_item = tree:add(f.ipv, tvb(0, 1))

	if bit32.extract(magic, 6, 2) ~= 0 then
		version_item:add_proto_expert_info(e.version)
		msg.bad, msg.unknown = true, true
	elseif not IPV_NAME[msg.ipv] then
		ipv_item:add_proto_expert_info(e.ipv)
		msg.bad = true
	end
	return msg
end

-- Adds the two mapped fields. Only a PMReq of at least 64 bytes with a nonzero mapped address has
-- them.
local function add_mapped(tree, tvb, msg)
	local long = msg.op == REQ and tvb:len() >= LONG_BYTES
	local port = tvb(2, 2)

	if long then
		local ip = add_address(tree, tvb, SHORT_BYTES, msg.ipv, f.mapped_cp_ip,
			f.mapped_cp_ip6)
		if ip ~= NO_IP then
			tree:add(f.mapped_cp_port, port)
			msg.mapped = tvb:raw(2, 2) .. ip
			return
		end
		tree:add_proto_expert_info(e.unmapped)
	end
	local item = tree:add(f.reserved, port)
	if port:uint() ~= 0 then
		item:add_proto_expert_info(e.ignored)
	end
end

local function add_number(tree, field, range, wrong)
	local item = tree:add(field, range)
	local zero = range:bytes() == ByteArray.new(string.rep("00", range:len()))

	if wrong and zero then
		item:add_proto_expert_info(wrong)
	end
	return not (wrong and zero)
end

local function add_body(tree, tvb, msg)
	local time_item = tree:add(f.pm_time, tvb(1, 1))
	local ok = add_number(tree, f.ap_port, tvb(4, 2), e.ap_port)

	if msg.op ~= ACCEPT and tvb(1, 1):uint() ~= 0 then
		time_item:add_proto_expert_info(e.ignored)
	end
	add_number(tree, f.cp_port, tvb(6, 2))
	ok = add_number(tree, f.assoc_handle, tvb(8, 8), e.assoc_handle) and ok
	msg.ap_port = tvb(4, 2):uint()
	msg.cp_port = tvb(6, 2):uint()
	msg.assoc_handle = tostring(tvb(8, 8):bytes())
	msg.cp_ip = add_address(tree, tvb, 16, msg.ipv, f.cp_ip, f.cp_ip6)
	msg.ap_ip = add_address(tree, tvb, 32, msg.ipv, f.ap_ip, f.ap_ip6)
	if msg.op == ACCEPT and msg.ap_ip == NO_IP then
		tree:add_proto_expert_info(e.ap_ip)
		ok = false
	end
	tree:add(f.upgrade, msg.cp_port ~= 0):set_generated()
	add_mapped(tree, tvb, msg)
	-- Only the fields that the receiver reads.
	msg.body = string.format("%d/%s/%s/%s", msg.ap_port, msg.ap_ip, msg.mapped or "",
		msg.op == ACCEPT and tvb(1, 1):uint() or "")
	msg.bad = msg.bad or not ok
end

local function add_spare(tree, tvb, msg)
	local used = msg.op == REQ and tvb:len() >= LONG_BYTES and LONG_BYTES or SHORT_BYTES

	if tvb:len() > used then
		local item = tree:add(f.spare, tvb(used))
		if tvb:raw(used):find("[^%z]") then
			item:add_proto_expert_info(e.ignored)
		end
	end
end

local function info_of(tvb, msg)
	local function place(offset, port)
		local ip = msg.ipv == 6 and "[" .. tostring(tvb(offset, 16):ipv6()) .. "]"
			or tostring(tvb(offset, 4):ipv4())
		return ip .. ":" .. port
	end
	local info = string.format("%s AssocHandle=0x%s", OP_NAME[msg.op], msg.assoc_handle:lower())

	if not IPV_NAME[msg.ipv] then
		return info
	end
	return string.format("%s CP=%s AP=%s", info, place(16, msg.cp_port), place(32, msg.ap_port))
end

function pm.dissector(tvb, pinfo, root)
	local len = tvb:len()

	if len == 0 then
		return 0
	end
	pinfo.cols.protocol = "RSOCK-PM"
	local tree = root:add(pm, tvb())
	local msg = add_magic(tree, tvb)

	tree:append_text(", " .. OP_NAME[msg.op])
	pinfo.cols.info = OP_NAME[msg.op]
	local short = len ~= SHORT_BYTES and len < LONG_BYTES
	if short then
		tree:add_proto_expert_info(e.length,
			string.format("%d bytes: neither 48 nor 64 and more", len))
	end
	if short or msg.unknown then
		if len > 1 then
			tree:add(f.undecoded, tvb(1))
		end
		pinfo.cols.info:append(" (malformed)")
		return len
	end
	add_body(tree, tvb, msg)
	add_spare(tree, tvb, msg)
	pinfo.cols.info = info_of(tvb, msg)
	if msg.bad then
		pinfo.cols.info:append(" (malformed)")
		return len
	end
	if msg.op == DENY then
		tree:add_proto_expert_info(e.deny)
	end
	-- A datagram quoted in an ICMP error was not sent in this frame.
	if not pinfo.in_error_pkt then
		msg.number, msg.time = pinfo.number, pinfo.rel_ts
		if not pinfo.visited or not frames[msg.number] then
			frames[msg.number] = track(msg)
		end
		add_transaction(tree, msg, frames[msg.number])
	end
	return len
end

local udp_ports = DissectorTable.get("udp.port")
local registered = pm.prefs.ports

udp_ports:add(registered, pm)

function pm.prefs_changed()
	if registered ~= pm.prefs.ports then
		udp_ports:remove(registered, pm)
		registered = pm.prefs.ports
		udp_ports:add(registered, pm)
	end
end
