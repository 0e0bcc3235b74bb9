#!/usr/bin/env node
// A browser without a screen: signs the user in at the URL of an authorization, and follows it back to the client.
//
// usage: node browser.mjs URL
import { agree } from './user.mjs';

const back = await agree(new URL(process.argv[2]));
const response = await fetch(back);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
