// What a client does with the server `everything`, once for every SDK. The fixtures are listed in ../README.md.
import './session.mjs';
import './tools.mjs';
import './calls.mjs';
import './resources.mjs';
import './prompts.mjs';
import './logging.mjs';
import './questions.mjs';
import './lists.mjs';
import './background.mjs';
import './stateless.mjs';
import './rounds.mjs';
import './listening.mjs';
import './skills.mjs';

export { tasks } from './task.mjs';
